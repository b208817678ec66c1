"""Which idle entries may be reclaimed: those whose owner is really silent.

The server measures how long an entry has been idle by its wall clock. When that steps forward, all entries seem
abandoned at once. So an entry is claimed only after it was seen twice, half of `claim_min_idle_ms` apart by the clock
monotonic clock of this process, and its idle time grew by as much: a live owner sends heartbeats every third
of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from chasqui_engine._redis.commands.group import Pending

_SEEN_FROM = 0.4
"""Fraction of claim_min_idle: more than a live owner's entries reach, early enough to see an entry twice in time."""
_BETWEEN = 0.5
_SLACK = 1 / 6
"""Fraction of claim_min_idle by which the clocks may differ between checks, for slow answers and busy event loops."""


class _Sight(NamedTuple):
    idle_ms: int
    at: float


class IdleEntries:
    """The idle entries of all workers, as one worker has seen them."""

    def __init__(self, claim_min_idle_ms: int) -> None:
        self._claim_min_idle_ms = claim_min_idle_ms
        self._first: dict[bytes, _Sight] = {}
        self.seen_from_ms = int(claim_min_idle_ms * _SEEN_FROM)
        """Entries idle for less need no check."""
        self.next_s = math.inf
        """When the first of the seen entries may be claimed."""

    def check(self, entries: Iterable[Pending], now: float) -> list[Pending]:
        """Records all entries that are idle by the server's clock; returns those to claim."""
        before, self._first = self._first, {}
        self.next_s = math.inf
        ripe = []
        for entry in entries:
            first = before.get(entry.entry_id)
            if first is None or not self._has_passed(first, entry, now):
                first = _Sight(entry.idle_ms, now)
            self._first[entry.entry_id] = first
            still_s = self._still_s(first, entry, now)
            if still_s <= 0:
                ripe.append(entry)
            else:
                self.next_s = min(self.next_s, still_s)
        return ripe

    def _has_passed(self, first: _Sight, entry: Pending, now: float) -> bool:
        """Whether only time has passed: no heartbeat, and no step of the server's clock."""
        passed_ms = (now - first.at) * 1000
        return abs(entry.idle_ms - first.idle_ms - passed_ms) <= self._claim_min_idle_ms * _SLACK

    def _still_s(self, first: _Sight, entry: Pending, now: float) -> float:
        seen_for_ms = (now - first.at) * 1000
        least_ms = self._claim_min_idle_ms
        return max(least_ms - entry.idle_ms, least_ms * _BETWEEN - seen_for_ms) / 1000
