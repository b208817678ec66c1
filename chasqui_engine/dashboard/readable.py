"""Payloads as text for people: whatever MessagePack can hold, shown, masked or hidden."""

from __future__ import annotations

import json
import math
from typing import Any

from chasqui_engine.dashboard.settings import Payloads

BRIEF_CHARS = 300
WHOLE_CHARS = 200_000
_DEEPEST = 60
_CUT = "…"


def payload_text(value: Any, payloads: Payloads, *, brief: bool = False) -> str | None:
    """A payload as JSON text, on one line and cut short if it is to be brief; None when payloads are hidden."""
    if payloads == "hide":
        return None
    plain = _plain(value, masked=payloads == "mask")
    text = json.dumps(plain, ensure_ascii=False, indent=None if brief else 2)
    most = BRIEF_CHARS if brief else WHOLE_CHARS
    return text if len(text) <= most else text[:most] + _CUT


def plain_payload(value: Any, payloads: Payloads) -> Any:
    """A payload as a value that JSON can hold; None when payloads are hidden."""
    return None if payloads == "hide" else _plain(value, masked=payloads == "mask")


def _plain(value: Any, *, masked: bool, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        return _CUT
    if isinstance(value, dict):
        # What is a key in one payload may be a person in the next: only text keys are a shape.
        return {_key(key, masked): _plain(item, masked=masked, depth=depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, masked=masked, depth=depth + 1) for item in value]
    return _mask(value) if masked else _value(value)


def _value(value: Any) -> Any:
    if value is None or isinstance(value, str | int | bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return _text(value)


def _key(key: Any, masked: bool) -> str:
    if isinstance(key, str):
        return key
    return _mask(key) if masked else _text(key)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value)


def _mask(value: Any) -> str:
    if value is None:
        return "‹nothing›"
    if isinstance(value, bool):
        return "‹yes or no›"
    if isinstance(value, int | float):
        return "‹number›"
    return "‹text›" if isinstance(value, str) else "‹bytes›"
