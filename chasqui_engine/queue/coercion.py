"""Converts the forms in which options may be passed to the engine's values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from chasqui_engine.schedule.spec import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine.schedule.store import encode_checked
from chasqui_engine.values.backoff import BackoffSpec
from chasqui_engine.values.durations import FURTHEST_MS, when_ms
from chasqui_engine.values.durations import delay_ms as timedelta_ms
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import JobRetryOverride, Moment
from chasqui_engine.values.validation import warn_of_no_effect

DelayMsLike = float | datetime
"""Milliseconds from now, or a `datetime` to run at (a naive one is taken for UTC)."""

BackoffLike = int | BackoffSpec | dict[str, Any]
"""A fixed delay in milliseconds, a spec, or a spec's fields."""

RepeatLike = RepeatPattern | dict[str, Any]

MissedFiresLike = MissedFiresPolicy | dict[str, Any]

NAME_AND_DATA = frozenset({"name", "data"})
_BULK_OPTIONS = NAME_AND_DATA | {"delay_ms", "delay", "attempts", "backoff", "job_id", "repeat", "missed_fires"}
_BULK_OPTIONS |= {"headers", "priority", "expires"}


def as_moment(delay_ms: DelayMsLike | None, delay: timedelta | None) -> Moment | None:
    """When a job is to run; None for now."""
    if delay is not None:
        if delay_ms is not None:
            raise ConfigError("pass delay_ms (milliseconds or a datetime) or delay (a timedelta), not both")
        if not isinstance(delay, timedelta):
            raise TypeError(f"delay must be a datetime.timedelta; got {type(delay).__name__}")
        return Moment(True, timedelta_ms(delay))
    if delay_ms is None:
        return None
    if isinstance(delay_ms, datetime):
        return Moment(False, when_ms(delay_ms))
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, int | float):
        raise TypeError(f"delay_ms must be a number of milliseconds or a datetime; got {type(delay_ms).__name__}")
    if not math.isfinite(delay_ms) or not 0 <= delay_ms <= FURTHEST_MS:
        raise ConfigError(f"delay_ms must be a finite number from 0 to {FURTHEST_MS}, got {delay_ms!r}")
    return Moment(True, int(delay_ms))


def as_retry(attempts: int | None, backoff: BackoffLike | None) -> JobRetryOverride | None:
    """A job's own retry limits; None if there are none."""
    if attempts is None and backoff is None:
        return None
    return JobRetryOverride(attempts, None if backoff is None else as_backoff(backoff))


def as_backoff(backoff: BackoffLike) -> BackoffSpec:
    """A backoff, its fields, or a fixed delay in milliseconds."""
    if isinstance(backoff, BackoffSpec):
        return backoff
    if isinstance(backoff, dict):
        return BackoffSpec.from_dict(backoff)
    if isinstance(backoff, bool) or not isinstance(backoff, int):
        raise TypeError(f"backoff must be milliseconds, a BackoffSpec or a dict; got {type(backoff).__name__}")
    return BackoffSpec.fixed(backoff)


def as_repeat(repeat: RepeatLike) -> RepeatPattern:
    """A pattern, or its fields."""
    if isinstance(repeat, RepeatPattern):
        return repeat
    if not isinstance(repeat, dict):
        raise TypeError(f"repeat must be a RepeatPattern or a dict; got {type(repeat).__name__}")
    kind = repeat.get("kind")
    if kind == "cron":
        return RepeatPattern.cron(_require(repeat, "expression"), tz=repeat.get("tz"))
    if kind == "every":
        return RepeatPattern.every(_whole(_require(repeat, "interval_ms"), "interval_ms"))
    raise ConfigError(f"repeat: kind must be 'cron' or 'every', got {kind!r}")


def _require(fields: dict[str, Any], name: str) -> Any:
    if name not in fields:
        raise ConfigError(f"repeat: a pattern of kind {fields['kind']!r} needs {name}")
    return fields[name]


def _whole(value: Any, field: str) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError) as err:
        raise ConfigError(f"repeat: {field} must be a whole number, got {value!r}") from err


def as_missed_fires(policy: MissedFiresLike | None) -> MissedFiresPolicy:
    """A policy, or its fields; None is skip."""
    if policy is None:
        return MissedFiresPolicy.skip()
    if isinstance(policy, MissedFiresPolicy):
        return policy
    if not isinstance(policy, dict):
        raise TypeError(f"missed_fires must be a MissedFiresPolicy or a dict; got {type(policy).__name__}")
    try:
        return MissedFiresPolicy(**policy)
    except TypeError as err:
        raise ConfigError(f"missed_fires takes kind, and max_catchup for fire-all: {err}") from err


_NOT_OF_A_SPEC = {
    "job_id": "use upsert_repeatable_job(key=…); storing a repeatable again under its key replaces it",
    "delay_ms": "use upsert_repeatable_job(start_after_ms=…)",
    "delay": "use upsert_repeatable_job(start_after_ms=…)",
    "headers": "a stored spec has no place for them",
    "priority": "a stored spec has no place for it",
    "expires": "a stored spec has no place for it; Worker(max_age_secs=…) is for all jobs",
}


def warn_of_unused(options: Mapping[str, Any]) -> None:
    """Warns of job options that have no effect on a repeatable."""
    for name, advice in _NOT_OF_A_SPEC.items():
        if options.get(name) is not None:
            warn_of_no_effect(f"{name} of a repeatable job", advice)


def bulk_spec(item: Mapping[str, Any]) -> RepeatableSpec:
    """The repeatable that an item of a bulk asks for."""
    check_bulk_fields(item)
    warn_of_unused(item)
    spec = RepeatableSpec(
        job_name=item.get("name") or "",
        pattern=as_repeat(item["repeat"]),
        payload=item["data"],
        missed_fires=as_missed_fires(item.get("missed_fires")),
        retry=as_retry(item.get("attempts"), item.get("backoff")),
    )
    encode_checked(spec)
    return spec


def check_bulk_fields(item: Mapping[str, Any]) -> None:
    """Raises `ConfigError` for a field that no job has, and for a job without data."""
    if unknown := item.keys() - _BULK_OPTIONS:
        raise ConfigError(
            f"add_bulk: unknown field {sorted(unknown)[0]!r}; known are {', '.join(sorted(_BULK_OPTIONS))}"
        )
    if "data" not in item:
        raise ConfigError("add_bulk: every job needs 'data'")
