"""Payloads as text for people: shown, masked or hidden."""

from __future__ import annotations

from typing import Any

from chasqui_engine.dashboard.settings import Payloads
from chasqui_engine.payload_json import preview, to_json

BRIEF_CHARS = 300
WHOLE_CHARS = 50_000


def payload_text(value: Any, payloads: Payloads, *, brief: bool = False) -> str | None:
    """A payload as JSON text, on one line and cut short if it is to be brief; None when payloads are hidden."""
    if payloads == "hide":
        return None
    leaf = _mask if payloads == "mask" else None
    return preview(value, BRIEF_CHARS, leaf=leaf) if brief else preview(value, WHOLE_CHARS, indent=2, leaf=leaf)


def plain_payload(value: Any, payloads: Payloads) -> Any:
    """A payload as a value that JSON can hold; None when payloads are hidden."""
    return None if payloads == "hide" else to_json(value, leaf=_mask if payloads == "mask" else None)


def _mask(value: Any) -> str:
    """The type of a value. Only text keys stay: other keys may be data, such as the id of a person."""
    if value is None:
        return "‹null›"
    if isinstance(value, bool):
        return "‹boolean›"
    if isinstance(value, int | float):
        return "‹number›"
    return "‹text›" if isinstance(value, str) else "‹bytes›"
