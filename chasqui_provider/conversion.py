"""Between what jobs hold (MessagePack) and what Airflow holds (JSON), and from rendered templates to arguments.

Bytes become `{"$bytes": "<base64>"}` on their way to an XCom, and that becomes bytes again on its way to a job.
"""

from __future__ import annotations

import ast
import base64
import binascii
import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from chasqui_engine import BackoffSpec, ConfigError
from chasqui_engine.payload_json import to_json as _to_json

_BYTES = "$bytes"

_MOST_TEXT = 4000
"""Longest error text, in characters, in events and logs."""

_SHOWN = 200
"""Longest part of a wrong value, in characters, that an error shows."""

_TIMEDELTA = re.compile(
    r"(?:(?P<days>-?\d+) days?, )?(?P<hours>\d+):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d(?:\.\d+)?)"
)
"""A `timedelta` as text: `2:00:00`, `1 day, 0:30:00`."""


def to_json(value: Any) -> Any:
    """The nearest value that JSON can hold; Airflow's Postgres refuses a NUL, so it is replaced."""
    return _to_json(value, nul="replace")


def to_airflow(value: Any, max_size: int | None = None) -> Any:
    """Like `to_json`, but raises `EncodeError` for values that Airflow cannot hold, or over `max_size`."""
    return _to_json(value, nul="replace", strict=True, max_size=max_size)


def short_text(text: str) -> str:
    """The beginning of a foreign text, in a form that Airflow can store."""
    cut = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
    return str(to_json(cut))


def from_json(value: Any) -> Any:
    """What to put into a job: bytes where `to_json` wrote them, tuples and sets as lists."""
    if isinstance(value, Mapping):
        if value.keys() == {_BYTES} and isinstance(value[_BYTES], str):
            return _decode(value[_BYTES])
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [from_json(item) for item in value]
    return value


def _decode(text: str) -> Any:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return {_BYTES: text}


def is_left_out(value: Any) -> bool:
    """Whether a field is unset, also when a template rendered None as text."""
    return value is None or (isinstance(value, str) and value.strip() in ("", "None"))


def as_text(name: str, value: Any) -> str | None:
    """An id or a name; natively rendered templates turn digits into numbers."""
    if is_left_out(value):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float | UUID):
        raise ConfigError(f"{name} must be text, got {value!r}")
    return str(value)


def as_ids(value: Any) -> list[str]:
    """Job ids from one id, a list, or a list rendered as text."""
    given = value.strip() if isinstance(value, str) else value
    if isinstance(given, str) and given.startswith("["):
        given = _literal("job_ids", given)
    items = [given] if isinstance(given, str | bytes) or not isinstance(given, Sequence | set | frozenset) else given
    ids = [as_text("job_ids", item) for item in items]
    if None in ids:
        raise ConfigError(f"job_ids must be one id or a list of them, got {_shorten(value)}")
    return [job_id for job_id in ids if job_id is not None]


def as_items(value: Any) -> Iterable[Any]:
    """The payloads of jobs: any iterable, or a list rendered as text."""
    if isinstance(value, str) and value.strip().startswith(("[", "(")):
        value = _literal("payloads", value)
    if isinstance(value, str | bytes | bytearray | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(
            "payloads must be a list, an iterator, or a function that returns one: put a single payload into a list, "
            f"and pass an XCom as `task.output`, or as a template of a list; got {_shorten(value)}"
        )
    return value


def as_duration(name: str, value: Any) -> timedelta | None:
    """A time span from a `timedelta`, seconds, or either as text."""
    if is_left_out(value):
        return None
    if isinstance(value, timedelta):
        return value
    try:
        clock = _TIMEDELTA.fullmatch(value.strip()) if isinstance(value, str) else None
        if clock is not None:
            return timedelta(**{unit: float(number) for unit, number in clock.groupdict(default="0").items()})
        return timedelta(seconds=float(value))
    except (TypeError, ValueError, OverflowError) as err:
        raise ConfigError(f"{name} must be seconds or a timedelta, got {value!r}") from err


def as_time(name: str, value: Any) -> datetime | None:
    """A point in time from a `datetime` or ISO text; without a zone it is UTC."""
    if is_left_out(value):
        return None
    moment = value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError as err:
            raise ConfigError(f"{name} must be a datetime or ISO 8601 text, got {value!r}") from err
    if not isinstance(moment, datetime):
        raise ConfigError(f"{name} must be a datetime or ISO 8601 text, got {value!r}")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def as_int(name: str, value: Any) -> int | None:
    """A whole number, also from text."""
    if is_left_out(value):
        return None
    is_whole = not isinstance(value, bool) and (not isinstance(value, float) or value.is_integer())
    try:
        if is_whole:
            return int(value)
    except (TypeError, ValueError) as err:
        raise ConfigError(f"{name} must be a whole number, got {value!r}") from err
    raise ConfigError(f"{name} must be a whole number, got {value!r}")


def as_backoff(value: Any) -> BackoffSpec | None:
    """A backoff: milliseconds, a spec, its fields, or milliseconds or fields as text."""
    if isinstance(value, str) and value.strip().startswith("{"):
        value = _literal("backoff", value)
    if isinstance(value, BackoffSpec):
        return value
    if isinstance(value, Mapping):
        return BackoffSpec.from_dict(dict(value))
    delay_ms = as_int("backoff", value)
    return None if delay_ms is None else BackoffSpec.fixed(delay_ms)


def _literal(name: str, text: str) -> Any:
    """A list or mapping rendered as text: JSON or a Python literal."""
    text = text.strip()
    with contextlib.suppress(ValueError):
        return json.loads(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as err:
        raise ConfigError(f"{name} cannot be read as a list or mapping: {_shorten(text)}") from err


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
