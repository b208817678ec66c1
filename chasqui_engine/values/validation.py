"""Validates numbers, names, job ids and keys of repeatables. Each error names the field and what it accepts.

Names become parts of Redis keys, so a name must never be able to reach another queue's keys.
"""

from __future__ import annotations

import warnings
from typing import Any

from chasqui_engine.values.errors import ConfigError

LARGEST = 2**53 - 1
"""The largest whole number that Lua and a score in Redis hold exactly."""
MAX_QUEUE_NAME_BYTES = 200
MAX_JOB_NAME_BYTES = 256
MAX_JOB_ID_BYTES = 1024
MAX_REPEAT_KEY_BYTES = 1024
MAX_SPEC_BYTES = 1024 * 1024
"""Of a repeatable spec as it is stored, its payload included."""


def check_whole_number(value: Any, field: str, least: int = 0, most: int = LARGEST, *, unit: str = "") -> int:
    """Checks a whole number; True and False are refused."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigError(f"{field} must be a whole number {_span(value, unit, least, most)}, got {value!r}")
    return value


def check_limit(limit: int) -> int:
    """At most how many to return."""
    return check_whole_number(limit, "limit")


def check_number(value: Any, field: str, least: float = 0, most: float = LARGEST, *, unit: str = "") -> float:
    """Checks a number, whole or not; True, False and NaN are refused."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ConfigError(f"{field} must be a number {_span(value, unit, least, most)}, got {value!r}")
    return value


def check_seconds(value: Any, field: str) -> float:
    """Checks a positive waiting time."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{field} must be a positive number of seconds, got {value!r}")
    return value


def _span(value: Any, unit: str, least: float, most: float) -> str:
    of = f"of {unit} " if unit else ""
    is_too_large = isinstance(value, int | float) and value > most
    return f"{of}from {least} to {most}" if most < LARGEST or is_too_large else f"{of}from {least} up"


def check_queue_name(name: str, field: str = "queue_name") -> str:
    """A queue, group or consumer name: printable, no braces (they delimit the cluster hash tag)."""
    _check_text(name, field, MAX_QUEUE_NAME_BYTES)
    if not name.strip():
        raise ConfigError(f"{field} must not be empty")
    if any(c in "{}" or not c.isprintable() for c in name):
        raise ConfigError(f"{field} must not contain braces or control characters, got {name!r}")
    return name


def check_job_name(name: str) -> str:
    """A job's name: any text up to 256 bytes; empty means none."""
    # Most names are ASCII, where a character is a byte: whatever is not has to be measured.
    if type(name) is str and name.isascii() and len(name) <= MAX_JOB_NAME_BYTES:
        return name
    return _check_text(name, "name", MAX_JOB_NAME_BYTES)


def check_job_id(job_id: str) -> str:
    """A job's id: any text with a visible character, up to 1024 bytes."""
    _check_text(job_id, "job_id", MAX_JOB_ID_BYTES)
    if not job_id.strip():
        raise ConfigError("job_id must be a non-empty, non-whitespace string")
    return job_id


def check_repeat_key(key: str) -> str:
    """The key of a repeatable, given or made of its name and pattern: any text up to 1024 bytes."""
    return _check_text(key, "key", MAX_REPEAT_KEY_BYTES)


def warn_of_no_effect(argument: str, advice: str) -> None:
    """Warns that an argument, which is accepted for compatibility with ChasquiMQ, has no effect."""
    # The caller's caller; Python shows a warning once per place in the code.
    warnings.warn(f"{argument} has no effect: {advice}", UserWarning, stacklevel=3)


def _check_text(text: str, field: str, limit_bytes: int) -> str:
    if not isinstance(text, str):
        raise ConfigError(f"{field} must be a string, got {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as err:
        raise ConfigError(f"{field} is not valid Unicode: {err.reason} at {err.start}") from err
    if size > limit_bytes:
        raise ConfigError(f"{field} must be at most {limit_bytes} bytes in UTF-8, got {size}")
    return text
