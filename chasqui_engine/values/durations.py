"""Delays and times as people write them, in milliseconds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from chasqui_engine.values.errors import ConfigError

Delay = timedelta | float
"""A `timedelta`, or seconds."""

When = datetime | float
"""An aware `datetime` (a naive one is taken for UTC), or epoch seconds."""

Expires = timedelta | datetime | float
"""How long a job may wait until it begins: a `timedelta` or seconds from when it is added; or a point in time."""

_COUNTED_MS = 10**20
FURTHEST_MS = 2**52
"""Beyond this Redis, which keeps times as doubles, does not hold them exactly."""


def delay_ms(delay: Delay, field: str = "delay") -> int:
    """A delay in milliseconds."""
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    return _positive_ms(seconds, field, "a timedelta or a number of seconds")


def when_ms(when: When, field: str = "when") -> int:
    """A point in time in epoch milliseconds."""
    if isinstance(when, datetime):
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    return _positive_ms(when, field, "a datetime or epoch seconds")


def expiry_ms(expires: Expires, added_at_ms: int) -> int:
    """When a job that was added then expires, in epoch milliseconds."""
    if isinstance(expires, datetime):
        return when_ms(expires)
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    return added_at_ms + _positive_ms(seconds, "expires", "a timedelta, a datetime or a number of seconds")


def iso(ms: float) -> str:
    """A time as ISO 8601; one beyond the calendar as its milliseconds."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{ms:.0f} ms" if abs(ms) < _COUNTED_MS else "beyond all calendars"


def stored_ms(score: float) -> int:
    """A score of a sorted set as a time: the nearest one that a job can have, since scores may be any number."""
    return int(min(max(score, 0), FURTHEST_MS))


def _positive_ms(seconds: float, field: str, kinds: str) -> int:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ConfigError(f"{field} must be {kinds}, got {type(seconds).__name__}")
    if not math.isfinite(seconds) or seconds < 0:
        raise ConfigError(f"{field} must be finite and not negative, got {seconds!r}")
    if seconds > FURTHEST_MS / 1000:
        raise ConfigError(f"{field} must be at most {FURTHEST_MS // 1000} seconds, got {seconds!r}")
    return round(seconds * 1000)
