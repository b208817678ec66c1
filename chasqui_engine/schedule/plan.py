"""When a repeatable job fires: the first time, and after an outage. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine.schedule.spec import RepeatableSpec
from chasqui_engine.values.errors import ConfigError


@dataclass(frozen=True, slots=True)
class FirePlan:
    """What to do with a spec at one moment."""

    fires: tuple[int, ...]
    """The fire times to make a job for now, the oldest first."""
    next_fire_ms: int | None
    """When to plan the spec again; None if it is finished and can be removed."""
    fired: int
    """How many jobs the spec has made, these included."""


def first_fire_ms(spec: RepeatableSpec, now_ms: int) -> int:
    """The first fire of a spec that is upserted now. Raises `ConfigError` when it would never fire.

    `every` fires one interval from now, or from `start_after_ms` if that is later; cron at the first match after
    the later of the two.
    """
    return upserted_fire_ms(spec, now_ms, None)


def upserted_fire_ms(spec: RepeatableSpec, now_ms: int, kept_ms: int | None) -> int:
    """Like `first_fire_ms`, for a spec that replaces one with the same pattern, whose next fire is at `kept_ms`.

    That fire is kept, however late, and is no later than that of a new spec.
    """
    times = [at for at in (_next_fire_ms(spec, now_ms), kept_ms) if at is not None]
    if not times:
        raise ConfigError(f"expression {spec.pattern.expression!r} never matches again: correct its day, month or year")
    first = min(times)
    if spec.end_before_ms is not None and first > spec.end_before_ms:
        raise ConfigError(f"end_before_ms ({spec.end_before_ms}) must not be before the first fire ({first})")
    return first


def plan_fires(
    spec: RepeatableSpec, next_fire_ms: int, fired: int, now_ms: int, at_most: int | None = None
) -> FirePlan:
    """What to fire at `now_ms` of a spec that is due at `next_fire_ms` and has fired `fired` times before.

    - Nothing is due: nothing is fired.
    - The fire after the due one is still to come: the due one is fired, however late, whatever the policy.
    - More than one has passed: `skip` fires none of them, `fire-once` the oldest, `fire-all` the oldest `max_catchup`.
      The rest is dropped, and the next fire is the first one after now.
    - `limit` counts every job, and cuts the list short; when it is reached, there is no next fire.
    - `at_most`, where given, cuts it short as well: what is made up for has to fit somewhere.
    - `end_before_ms` ends the spec when its next fire would be later. It does not hold back what is made up for.
    """
    if next_fire_ms > now_ms:
        return FirePlan(fires=(), next_fire_ms=next_fire_ms, fired=fired)
    following = _next_fire_ms(spec, next_fire_ms)
    if following is None or following > now_ms:
        wanted = 1
    else:
        wanted = {"skip": 0, "fire-once": 1}.get(spec.missed_fires.kind, spec.missed_fires.max_catchup or 0)
        following = _next_after_now_ms(spec, next_fire_ms, now_ms)
    if spec.limit is not None:
        wanted = max(0, min(wanted, spec.limit - fired))
    if at_most is not None:
        wanted = min(wanted, at_most)
    fires = _due(spec, next_fire_ms, now_ms, wanted)
    fired += len(fires)
    finished = (
        following is None
        or (spec.limit is not None and fired >= spec.limit)
        or (spec.end_before_ms is not None and following > spec.end_before_ms)
    )
    return FirePlan(fires=fires, next_fire_ms=None if finished else following, fired=fired)


def _next_fire_ms(spec: RepeatableSpec, t_ms: int) -> int | None:
    return spec.pattern.next_after_ms(max(t_ms, spec.start_after_ms or 0))


def _next_after_now_ms(spec: RepeatableSpec, due_ms: int, now_ms: int) -> int | None:
    """The first fire after `now_ms` in the sequence that `due_ms` began, computed directly."""
    interval = spec.pattern.interval_ms
    if interval is None:
        return _next_fire_ms(spec, now_ms)
    base = max(due_ms, spec.start_after_ms or 0)
    return base + max(1, (now_ms - base) // interval + 1) * interval


def _due(spec: RepeatableSpec, due_ms: int, now_ms: int, at_most: int) -> tuple[int, ...]:
    fires: list[int] = []
    at: int | None = due_ms
    while at is not None and at <= now_ms and len(fires) < at_most:
        fires.append(at)
        at = _next_fire_ms(spec, at)
    return tuple(fires)
