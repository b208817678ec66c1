"""Reads the counts of a queue: its minutes of a day, or its hours of four weeks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stats import DAY_S, HOUR_S, MINUTE_S

_DEPTH = ("waiting", "active", "delayed")
_KINDS = {"c": "completed", "f": "failed", "d": "dead"}

Grain = Literal["minute", "hour"]


@dataclass(slots=True)
class HistoryPoint:
    """A minute, or an hour, of a queue."""

    at_ms: int
    """When it begins, by the clock of the workers."""
    completed: Counter[str] = field(default_factory=Counter)
    """Runs that went well, by the name of the job; `*` stands for names beyond the 50 of one write."""
    failed: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)
    """How long runs took: see `quantile_ms`."""
    depth: tuple[int, int, int] | None = None
    """Jobs that waited, were in flight, and were delayed; of an hour, when the most waited. None if nobody looked."""


async def read_history(
    link: Link, keys: QueueKeys, *, since_ms: int, until_ms: int, grain: Grain
) -> list[HistoryPoint]:
    """The minutes, or hours, of which anything is known, the oldest first."""
    step_s, part_s = (MINUTE_S, HOUR_S) if grain == "minute" else (HOUR_S, DAY_S)
    parts = range(since_ms // 1000 // part_s, until_ms // 1000 // part_s + 1)
    found: dict[int, HistoryPoint] = {}
    for part, fields in zip(parts, await stats.read_tallies(link, keys, grain, parts), strict=True):
        for name, number in _split(fields):
            at_ms = (part * part_s + number * step_s) * 1000
            if since_ms - step_s * 1000 < at_ms <= until_ms:
                _put(found.setdefault(at_ms, HistoryPoint(at_ms)), name, fields[f"{number}:{name}"])
    return [found[at_ms] for at_ms in sorted(found)]


def _split(fields: Iterable[str]) -> Iterator[tuple[str, int]]:
    for one in fields:
        number, _, name = one.partition(":")
        if number.isdecimal():
            yield name, int(number)


def _put(point: HistoryPoint, name: str, value: str) -> None:
    """Adds a field; other programs may have written any other, which is passed over."""
    kind, _, rest = name.partition(":")
    if name == "depth":
        parts = value.split(",")
        if len(parts) == len(_DEPTH) and all(map(str.isdecimal, parts)):
            point.depth = (int(parts[0]), int(parts[1]), int(parts[2]))
    elif not value.isdecimal():
        return
    elif kind == "t" and rest.isdecimal():
        point.durations[int(rest)] += int(value)
    elif kind in _KINDS:
        getattr(point, _KINDS[kind])[rest] += int(value)
