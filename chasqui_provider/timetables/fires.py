"""Decides which fire of a spec becomes the next run of its DAG. Pure and stateless: it depends on the last run only."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from functools import lru_cache

from chasqui_engine import ConfigError, RepeatableSpec
from chasqui_engine.schedule import first_fire_ms, plan_fires

LATE_MS = 60_000
"""A fire counts as missed only after this time: Airflow may be about to create its run."""
_MOST_CRON_FIRES = 10_000
"""Bounded because the fires of a cron expression are counted one by one."""
_FIRST_WINDOW_MS = 1000


class Fires:
    """The sequence of fires of one spec, from the first to the last."""

    def __init__(self, spec: RepeatableSpec) -> None:
        self.spec = spec
        self._row = replace(spec, limit=None, end_before_ms=None, payload=None)

    def check(self) -> None:
        """Raises `ConfigError` when the last fire could not be found in reasonable time."""
        if self.spec.pattern.interval_ms is None and (self.spec.limit or 0) > _MOST_CRON_FIRES:
            raise ConfigError(
                f"limit must be at most {_MOST_CRON_FIRES} with a cron expression, got {self.spec.limit}: "
                "set end_before_ms instead"
            )

    def first(self, since_ms: int, not_before_ms: int) -> int | None:
        """The first fire, from `not_before_ms` on, of the sequence that began at `since_ms`; None if there is none."""
        try:
            first_ms = first_fire_ms(self._row, since_ms)
        except ConfigError:
            return None
        return first_ms if first_ms >= not_before_ms else self._next_after(first_ms, not_before_ms - 1)

    def after(self, at_ms: int) -> int | None:
        """The fire after the given one."""
        return self._next_after(at_ms, at_ms)

    def end_ms(self, first_ms: int) -> float:
        """The latest time at which a sequence with this first fire may fire."""
        by_date = math.inf if self.spec.end_before_ms is None else self.spec.end_before_ms
        return by_date if self.spec.limit is None else min(by_date, _nth_ms(self._row, first_ms, self.spec.limit))

    def choose(self, due_ms: int, now_ms: int, end_ms: float) -> int | None:
        """The fire that takes the place of a due one, by the spec's policy, if later ones are due too."""
        passed_ms = int(min(now_ms, end_ms))
        following_ms = self.after(due_ms)
        if following_ms is None or following_ms > passed_ms:
            return due_ms
        policy = self.spec.missed_fires
        if policy.kind != "skip":
            return self._oldest_of_newest(due_ms, passed_ms, policy.max_catchup or 1)
        newest_ms = self._oldest_of_newest(due_ms, passed_ms, 1)
        return newest_ms if now_ms - newest_ms <= LATE_MS else self._next_after(due_ms, now_ms)

    def _next_after(self, at_ms: int, moment_ms: int) -> int | None:
        """The first fire after a given time in the sequence that `at_ms` belongs to."""
        return plan_fires(self._row, at_ms, 0, moment_ms).next_fire_ms

    def _oldest_of_newest(self, due_ms: int, now_ms: int, count: int) -> int:
        """The oldest of the newest `count` fires from `due_ms` to `now_ms`."""
        interval_ms = self.spec.pattern.interval_ms
        if interval_ms is not None:
            newest = (now_ms - due_ms) // interval_ms
            return due_ms + max(0, newest - count + 1) * interval_ms
        window_ms = _FIRST_WINDOW_MS
        while now_ms - window_ms > due_ms:
            fires = self._fires_between(now_ms - window_ms, now_ms, count)
            if len(fires) == count:
                return fires[0]
            window_ms *= 2
        return self._fires_between(due_ms - 1, now_ms, count)[0]

    def _fires_between(self, after_ms: int, until_ms: int, count: int) -> deque[int]:
        """The newest `count` fires of a cron expression in a time range."""
        fires: deque[int] = deque(maxlen=count)
        at_ms = self.spec.pattern.next_after_ms(after_ms)
        while at_ms is not None and at_ms <= until_ms:
            fires.append(at_ms)
            at_ms = self.spec.pattern.next_after_ms(at_ms)
        return fires


@lru_cache(maxsize=1000)
def _nth_ms(row: RepeatableSpec, first_ms: int, count: int) -> float:
    """The time of the last fire allowed by the limit, if the sequence gets that far."""
    if row.pattern.interval_ms is not None:
        return first_ms + (count - 1) * row.pattern.interval_ms
    at_ms: int | None = first_ms
    for _ in range(count - 1):
        if at_ms is None:
            return math.inf
        at_ms = row.pattern.next_after_ms(at_ms)
    return math.inf if at_ms is None else at_ms
