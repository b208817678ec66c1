"""Payloads as text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chasqui_engine.codec.envelope import decode_payload, encode_payload
from chasqui_engine.dashboard.api.payload_view import BRIEF_CHARS, payload_text, plain_payload


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": [1, 2.5, None, True, "é"]}, {"a": [1, 2.5, None, True, "é"]}),
        ({1: "x", b"k": "y"}, {"1": "x", '{"$bytes":"aw=="}': "y"}),
        (b"\xff\x00<", {"$bytes": "/wA8"}),
        (float("nan"), None),
        (float("inf"), None),
        (2**64 - 1, 2**64 - 1),
        (None, None),
    ],
    ids=repr,
)
def test_whatever_a_payload_holds_is_shown(value: Any, shown: Any) -> None:
    assert json.loads(payload_text(value, "show") or "") == shown


def test_a_time_is_shown() -> None:
    stamp = decode_payload(bytes.fromhex("d6ff00000000"))
    assert payload_text(stamp, "show")


def test_a_mask_keeps_the_shape_and_no_value() -> None:
    value = {
        "card": "4242",
        "sum": 12.5,
        "paid": True,
        "none": None,
        "raw": b"4242",
        "list": ["4242", {"x": 1}],
        4242: "4242",
    }
    masked = payload_text(value, "mask") or ""
    assert "4242" not in masked
    assert "12.5" not in masked
    assert json.loads(masked)["list"] == ["‹text›", {"x": "‹number›"}]


@pytest.mark.parametrize("value", [{"a": 1}, None, "x"])
def test_hidden_is_hidden(value: Any) -> None:
    assert payload_text(value, "hide") is None
    assert plain_payload(value, "hide") is None


def test_brief_is_one_short_line() -> None:
    text = payload_text({"a": "x\n" * 1000}, "show", brief=True) or ""
    assert len(text) == BRIEF_CHARS + 1
    assert "\n" not in text


def test_what_is_nested_without_end_is_cut() -> None:
    value: Any = "bottom"
    for _ in range(500):
        value = [value]
    text = payload_text(decode_payload(encode_payload(value)), "show") or ""
    assert "bottom" not in text
    assert "$truncated" in text
