"""Payloads that people write: JSON in which `{"$bytes": "<base64>"}` stands for bytes."""

from __future__ import annotations

from typing import Any

from fastapi import HTTPException

from chasqui_engine import ConfigError, DlqEntry, EncodeError
from chasqui_engine.admin import describe
from chasqui_engine.codec import encode_payload
from chasqui_engine.dashboard.api.body import parse_json
from chasqui_engine.dashboard.settings import Payloads
from chasqui_engine.payload_json import from_json, json_text, to_json

MOST_BODY_BYTES = 2 * 1024 * 1024
"""Of a request with a payload in it."""
_MOST_EDITED_BYTES = 128 * 1024
"""A larger payload is no pleasure in a text field."""


def parse_payload(text: str) -> Any:
    """The payload that a text stands for; raises `ConfigError` when it cannot be one."""
    form = parse_json(text, "payload")
    try:
        to_json(form, strict=True)  # refuses what is nested too deeply
        value = from_json(form)
        encode_payload(value)
    except EncodeError as err:
        raise ConfigError(f"payload: {err.args[0]}") from err
    return value


def write_editable(entry: DlqEntry, payloads: Payloads) -> str:
    """The payload of a dead letter as a text from which `parse_payload` makes the same payload.

    Raises an error where there is none.
    """
    if payloads != "show":
        raise HTTPException(403, "Payloads are hidden on this dashboard, so none can be edited.")
    if len(entry.payload) > _MOST_EDITED_BYTES:
        raise HTTPException(409, f"This payload is larger than {_MOST_EDITED_BYTES // 1024} KiB: export and edit it.")
    facts = describe(entry)
    if "unreadable" in facts:
        raise HTTPException(409, f"This payload cannot be read: {facts['unreadable']}")
    payload = facts["payload"]
    text = json_text(payload, indent=2)
    try:
        same = _with_kinds(parse_payload(text)) == _with_kinds(payload)
    except ConfigError:
        same = False
    if not same:
        raise HTTPException(409, "This payload holds values that JSON has not, so it cannot be edited here.")
    return text


def _with_kinds(value: Any) -> Any:
    """The value with the type of each part, since Python takes 1, 1.0 and True for equal."""
    if isinstance(value, list):
        return [_with_kinds(item) for item in value]
    if isinstance(value, dict):
        return [(_with_kinds(key), _with_kinds(item)) for key, item in value.items()]
    return type(value), value
