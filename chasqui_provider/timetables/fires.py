"""The state of a schedule, carried in the data interval of its last run: Airflow hands a timetable nothing else.

A run's interval starts at its fire. Its length holds, in microseconds, what the engine keeps in Redis: how often the
spec has fired (when there is a limit) and how many missed fires are still to be made up for. After an outage its end
also names the fire at which the schedule goes on; otherwise that is simply the next one. The end of a run that is only
planned names where the DAG ends, if it does: whoever makes the run of it is told nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from chasqui_engine import ConfigError, FirePlan, RepeatableSpec, first_fire_ms, plan_fires

_CRON_SPACING_MS = 1000

BEFORE_ALL_MS = 0
"""A moment at which no fire is past, and so none was missed."""


@dataclass(frozen=True, slots=True)
class Fire:
    """One run of a DAG."""

    at_ms: int
    fired: int
    """Runs so far, this one included; 0 when nobody counts."""
    to_make_up: int = 0
    """Missed fires that follow this one at once."""
    resume_ms: int | None = None
    """Where the schedule goes on after those; None for the fire after this one."""
    until_ms: int | None = None
    """Of a plan: no fire comes after this moment; None where nobody set an end."""

    @property
    def is_after_outage(self) -> bool:
        """Whether it was planned when fires had been missed already."""
        return self.to_make_up > 0 or self.resume_ms is not None


class _Dropped:
    """Which fires were dropped, and where the schedule goes on: the engine keeps that in Redis, a run cannot carry it.

    Kept for the life of the process. Without it, a DAG file that is parsed just when a fire comes up, the first one
    after an outage, would see that fire as one more of those that were missed.
    """

    _most = 10_000
    _jumps: ClassVar[dict[tuple[RepeatableSpec, int], int]] = {}

    def __init__(self, spec: RepeatableSpec) -> None:
        self._spec = spec

    def note(self, due_ms: int, next_ms: int) -> None:
        """`due_ms` is not fired any more; `next_ms` is due instead."""
        if due_ms == next_ms:
            return
        while len(self._jumps) >= self._most:
            del self._jumps[next(iter(self._jumps))]
        self._jumps[self._spec, due_ms] = next_ms

    def follow(self, due_ms: int) -> int:
        """What is due in place of `due_ms`."""
        while (next_ms := self._jumps.get((self._spec, due_ms))) is not None:
            due_ms = next_ms
        return due_ms


class Schedule:
    """What follows what, for one spec. Pure: the engine's own functions, and arithmetic."""

    def __init__(self, spec: RepeatableSpec) -> None:
        self.spec = spec
        self._unbounded = replace(spec, limit=None, end_before_ms=None)
        self._most_made_up = spec.missed_fires.max_catchup or 0 if spec.missed_fires.kind == "fire-all" else 0
        self.largest_code = (spec.limit or 0) * (self._most_made_up + 1) + self._most_made_up
        self.spacing_ms = spec.pattern.interval_ms or _CRON_SPACING_MS
        self._dropped = _Dropped(replace(spec, payload=None))

    def check(self) -> None:
        """Raises `ConfigError` when the state does not fit between two fires."""
        if self.largest_code and 2 * self.largest_code + 1 >= (self.spacing_ms - 2) * 1000:
            raise ConfigError(
                f"limit ({self.spec.limit}) times max_catchup ({self._most_made_up}) is too much to be counted "
                f"for fires that are {self.spacing_ms} ms apart"
            )

    def first(self, since_ms: int, not_before_ms: int, now_ms: int) -> Fire | None:
        """The first run of a spec that was stored at `since_ms`."""
        try:
            due_ms = first_fire_ms(self._unbounded, since_ms)
        except ConfigError:
            return None
        if due_ms < not_before_ms:
            following = plan_fires(self._unbounded, due_ms, 0, not_before_ms - 1).next_fire_ms
            if following is None:
                return None
            due_ms = following
        return self.next_due(due_ms, 0, now_ms)

    def after(self, last: Fire, now_ms: int) -> Fire | None:
        """The run that follows another."""
        if last.to_make_up:
            following = self._following_ms(last.at_ms)
            if following is None:
                return None
            return Fire(following, self._count(last.fired), last.to_make_up - 1, last.resume_ms)
        due_ms = last.resume_ms or self._following_ms(last.at_ms)
        return None if due_ms is None else self.next_due(due_ms, last.fired, now_ms)

    def next_due(self, due_ms: int, fired: int, now_ms: int) -> Fire | None:
        """What the engine makes, at `now_ms`, of a spec that is due at `due_ms` and has fired `fired` times."""
        end_ms = self.spec.end_before_ms
        if (end_ms is not None and due_ms > end_ms) or (self.spec.limit is not None and fired >= self.spec.limit):
            return None
        if now_ms != BEFORE_ALL_MS:
            due_ms = self._dropped.follow(due_ms)
        plan: FirePlan = plan_fires(self.spec, due_ms, fired, now_ms)
        if not plan.fires:
            if plan.next_fire_ms is None:
                return None
            self._dropped.note(due_ms, plan.next_fire_ms)
            return Fire(plan.next_fire_ms, self._count(fired))
        at_ms = plan.fires[0]
        resume_ms = plan_fires(self._unbounded, due_ms, 0, now_ms).next_fire_ms
        if resume_ms == self._following_ms(at_ms):
            resume_ms = None
        return Fire(at_ms, self._count(fired), len(plan.fires) - 1, resume_ms)

    def end_us(self, fire: Fire) -> int:
        """The end of a run's data interval, in microseconds since the epoch."""
        code = fire.fired * (self._most_made_up + 1) + fire.to_make_up
        if fire.until_ms is not None and not fire.is_after_outage:
            return self._last_moment_ms(fire.at_ms, fire.until_ms) * 1000 + self.largest_code + 1 + code
        return (fire.resume_ms or fire.at_ms) * 1000 + code

    def read(self, start_us: int, end_us: int) -> Fire:
        """The run that an interval belongs to; an interval of another timetable is taken for a plain fire."""
        at_ms = start_us // 1000
        resume_ms = until_ms = None
        code = end_us - at_ms * 1000
        if not self._is_code(code):
            resume_ms = self._fire_near_ms(at_ms, end_us)
            code = end_us - (resume_ms or 0) * 1000
            if resume_ms is None or resume_ms <= at_ms or not self._is_code(code):
                resume_ms, until_ms = None, self._last_moment_ms(at_ms, end_us // 1000)
                code = end_us - until_ms * 1000 - self.largest_code - 1
                if until_ms < at_ms or not self._is_code(code):
                    return Fire(at_ms, 0)
        fired, to_make_up = divmod(code, self._most_made_up + 1)
        return Fire(at_ms, fired, to_make_up, resume_ms, until_ms)

    def _is_code(self, code: int) -> bool:
        return 0 <= code <= self.largest_code

    def _last_moment_ms(self, at_ms: int, until_ms: int) -> int:
        """The last moment, up to the given one, at which a row with a fire at `at_ms` can have another."""
        return at_ms + (until_ms - at_ms) // self.spacing_ms * self.spacing_ms

    def _fire_near_ms(self, at_ms: int, end_us: int) -> int | None:
        """The fire that stands behind the end of an interval: the one at most `largest_code` before it."""
        end_ms = end_us // 1000
        interval = self.spec.pattern.interval_ms
        if interval is not None:
            return at_ms + (end_ms - at_ms) // interval * interval
        return self.spec.pattern.next_after_ms(end_ms - self.largest_code // 1000 - 1)

    def _following_ms(self, at_ms: int) -> int | None:
        return plan_fires(self._unbounded, at_ms, 0, at_ms).next_fire_ms

    def _count(self, fired: int) -> int:
        return 0 if self.spec.limit is None else fired + 1
