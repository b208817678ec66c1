"""JSON that every reader takes, whatever a job holds."""

from __future__ import annotations

import json
import math
from typing import Any

_DEEPEST = 60
_CUT = "…"


def json_text(data: Any, *, indent: int | None = None) -> str:
    """A value as JSON: bytes and other things that JSON has no word for as text, what is no number as null."""
    try:
        return json.dumps(data, default=_as_json, ensure_ascii=False, allow_nan=False, indent=indent)
    except (TypeError, ValueError, RecursionError):
        # Keys that are no text, numbers that are none, or a nesting without end: seldom, so only then looked for.
        return json.dumps(_plain(data, 0), ensure_ascii=False, allow_nan=False, indent=indent)


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        return _CUT
    if isinstance(value, dict):
        return {_key(key): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner, depth + 1) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else _as_json(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else str(_as_json(key))


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)
