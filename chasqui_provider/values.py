"""Between what jobs hold (MessagePack) and what Airflow holds (JSON), and from rendered templates to arguments.

Bytes become `{"$bytes": "<base64>"}` on their way to an XCom, and that becomes bytes again on its way to a job.
"""

from __future__ import annotations

import ast
import base64
import binascii
import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from chasqui_engine import ConfigError

_BYTES = "$bytes"


def to_json(value: Any) -> Any:
    """The nearest value that JSON can hold; whatever has no counterpart becomes its text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [to_json(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else str(value)


def from_json(value: Any) -> Any:
    """What to put into a job: bytes where `to_json` wrote them, times as ISO text, tuples and sets as lists."""
    if isinstance(value, Mapping):
        if value.keys() == {_BYTES} and isinstance(value[_BYTES], str):
            return _decoded(value[_BYTES])
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, Sequence | set | frozenset):
        return [from_json(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _decoded(text: str) -> Any:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return {_BYTES: text}


def as_ids(value: Any) -> list[str]:
    """Job ids from one id, a list, or the text that a template made of a list."""
    if isinstance(value, str):
        text = value.strip()
        value = _literal(text) if text.startswith("[") else [text]
    ids = list(value) if isinstance(value, Sequence | set | frozenset) else None
    if not ids or not all(isinstance(job_id, str) and job_id.strip() for job_id in ids):
        raise ConfigError(f"job_ids must be one id or a list of them, got {value!r}")
    return ids


def as_delay(value: Any) -> timedelta | None:
    """A delay from a `timedelta`, seconds, or seconds as text."""
    if value is None or value == "":
        return None
    if isinstance(value, timedelta):
        return value
    try:
        return timedelta(seconds=float(value))
    except (TypeError, ValueError, OverflowError) as err:
        raise ConfigError(f"delay must be seconds or a timedelta, got {value!r}") from err


def as_time(value: Any) -> datetime | None:
    """A point in time from a `datetime` or ISO text; without a zone it is UTC."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as err:
            raise ConfigError(f"run_at must be a datetime or ISO 8601 text, got {value!r}") from err
    if not isinstance(value, datetime):
        raise ConfigError(f"run_at must be a datetime or ISO 8601 text, got {value!r}")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def as_int(name: str, value: Any) -> int | None:
    """A whole number, also from text."""
    if value is None or value == "":
        return None
    try:
        return int(value)
    except (TypeError, ValueError) as err:
        raise ConfigError(f"{name} must be a whole number, got {value!r}") from err


def as_backoff(value: Any) -> Any:
    """A backoff: milliseconds, a spec's fields, or either as text."""
    if isinstance(value, str):
        text = value.strip()
        return _literal(text) if text.startswith("{") else as_int("backoff", text)
    return value


def _literal(text: str) -> Any:
    """What a template made of a list or mapping: JSON, or Python's own notation."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError) as err:
        raise ConfigError(f"cannot be read as a list or mapping: {text!r}") from err
