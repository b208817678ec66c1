"""Payloads as JSON: one form, whatever MessagePack holds, for a bounded amount of work."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chasqui_engine import EncodeError
from chasqui_engine.codec.envelope import decode_payload, encode_payload
from chasqui_engine.payload_json import MAX_DEPTH, json_text, preview, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

# A busy machine is no reason to fail.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

whole = st.integers(-(2**63), 2**64 - 1)
texts = st.text(st.characters(), max_size=30)
"""With lone surrogates and NULs."""
extensions = st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=9))
stamps = st.builds(msgpack.Timestamp, st.integers(-(2**63), 2**63 - 1), st.integers(0, 999_999_999))
scalars = st.one_of(st.none(), st.booleans(), whole, st.floats(), texts, st.binary(max_size=30), extensions, stamps)
keys = st.one_of(texts, whole, st.floats(), st.booleans(), st.none(), st.binary(max_size=8), extensions)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner, max_size=6),
    max_leaves=25,
)


def nested(depth: int, bottom: Any = "bottom") -> Any:
    for level in range(depth):
        bottom = [bottom] if level % 2 else {"k": bottom}
    return bottom


def depth_of(value: Any) -> int:
    deepest, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        deepest += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return deepest


def size_of(form: Any) -> int:
    """Values in all."""
    inner = form.values() if isinstance(form, dict) else form if isinstance(form, list) else []
    return 1 + sum(size_of(item) for item in inner)


@pytest.mark.parametrize(
    ("value", "form"),
    [
        ({"blob": b"\xff\x00", "x": float("nan")}, {"blob": {"$bytes": "/wA="}, "x": None}),
        ([float("inf"), float("-inf"), 1.5, True, None], [None, None, 1.5, True, None]),
        ({2: "a", None: "b", True: "c", 1.5: "d"}, {"2": "a", "null": "b", "true": "c", "1.5": "d"}),
        ({b"\xff": 1, float("nan"): 2}, {'{"$bytes":"/w=="}': 1, "null": 2}),
        (msgpack.ExtType(5, b"\x01"), {"$ext": [5, "AQ=="]}),
        (msgpack.Timestamp(0, 0), "1970-01-01T00:00:00+00:00"),
        (msgpack.Timestamp(1, 1), "1970-01-01T00:00:01.000000001+00:00"),
        (msgpack.Timestamp(2**62, 7), {"$timestamp": [2**62, 7]}),
        ("a\ud800b", "a\ufffdb"),
        ({"\udfff": "\0"}, {"\ufffd": "\0"}),
        (2**64 - 1, 2**64 - 1),
        (-(10**30), -(10**30)),
        ([16**5000], ["0x1" + "0" * 5000]),
        ((1, {2}, frozenset({3}), range(2)), [1, [2], [3], [0, 1]]),
        (OrderedDict(a=bytearray(b"x"), b=memoryview(b"y")), {"a": {"$bytes": "eA=="}, "b": {"$bytes": "eQ=="}}),
        (1j, "1j"),
    ],
)
def test_each_kind_of_value_has_one_form(value: Any, form: Any) -> None:
    assert to_json(value) == form
    assert json.loads(json_text(value)) == form
    assert json_text(value, compact=True) == json.dumps(form, ensure_ascii=False, separators=(",", ":"))
    assert preview(value, 10_000) == json_text(value)


@untimed
@given(values)
def test_whatever_messagepack_holds_becomes_valid_json(value: Any) -> None:
    form = to_json(value)
    text = json.dumps(form, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == form
    assert json.loads(json_text(value)) == form
    assert json.loads(json_text(value, indent=2)) == form


@untimed
@given(values)
def test_what_became_json_stays_as_it_is(value: Any) -> None:
    form = to_json(value)
    assert to_json(form) == form


@untimed
@given(values)
def test_a_nul_is_replaced_where_the_target_refuses_it(value: Any) -> None:
    assert "\\u0000" not in json.dumps(to_json(value, nul="replace"))


def test_lone_surrogates_stay_for_who_escapes_them() -> None:
    for value in (["\ud800"], ["\ud800", b""]):
        assert "\ud800" in json_text(value, surrogates="keep")


@untimed
@given(values, st.integers(0, 200), st.sampled_from([None, 2]))
def test_a_preview_is_the_beginning_of_the_text(value: Any, most: int, indent: int | None) -> None:
    whole_text = json.dumps(to_json(value), ensure_ascii=False, indent=indent)
    expected = whole_text if len(whole_text) <= most else whole_text[:most] + "…"
    assert preview(value, most, indent=indent) == expected


@untimed
@given(values, st.integers(1, 60))
def test_a_bound_on_the_size_holds(value: Any, most: int) -> None:
    form = to_json(value, max_size=most)
    if "$truncated" not in json.dumps(form):
        assert to_json(value, max_size=most, strict=True) == form == to_json(value)
        return
    # Bytes are a map and a text, and every list or map that was begun ends with a marker.
    assert size_of(form) <= 2 * (most + depth_of(form))
    with pytest.raises(EncodeError, match=f"more than {most} values and characters"):
        to_json(value, max_size=most, strict=True)


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 511, 990, 1023, 1_000_000])
def test_what_is_nested_too_deeply_is_cut_with_a_marker(depth: int) -> None:
    value = nested(depth)
    assert depth_of(to_json(value)) == MAX_DEPTH + 1
    for text in (json_text(value), json_text(value, indent=2), preview(value, 100_000)):
        assert '{"$truncated":"depth"}' in "".join(text.split())
        assert depth_of(json.loads(text)) == MAX_DEPTH + 1
        assert "bottom" not in text
    with pytest.raises(EncodeError, match=f"nested deeper than {MAX_DEPTH} levels"):
        to_json(value, strict=True)


def test_the_deepest_that_is_allowed_is_kept() -> None:
    value = nested(MAX_DEPTH)
    assert to_json(value, strict=True) == value
    assert json.loads(json_text(value)) == value == json.loads(preview(value, 10_000))
    # As many brackets as it takes to look deep, in text and side by side.
    for flat in (["[" * 500], [[]] * 500, {str(n): {} for n in range(500)}):
        assert json.loads(json_text(flat)) == flat


def test_a_list_that_holds_itself_is_cut() -> None:
    value: list[Any] = []
    value.append(value)
    assert depth_of(to_json(value)) == MAX_DEPTH + 1
    assert depth_of(json.loads(json_text(value))) == MAX_DEPTH + 1


def test_what_the_decoder_takes_at_its_deepest_becomes_json() -> None:
    packed = b"\x91" * 1023 + b"\x01"
    assert depth_of(json.loads(json_text(decode_payload(packed)))) == MAX_DEPTH + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: [[] for _ in range(1_000_000)],
        lambda: {str(n): n for n in range(300_000)},
        lambda: {b"%d" % n: n for n in range(300_000)},
        lambda: "x" * 20_000_000,
        lambda: ["é" * 20_000_000],
        lambda: [b"x" * 20_000_000],
    ],
    ids=["lists", "map", "bytes-keys", "text", "text-in-list", "bytes"],
)
def test_a_preview_costs_what_it_shows(make: Callable[[], Any]) -> None:
    value = make()

    # The whole takes some hundred milliseconds; the machine may be busy, so the best of five counts.
    def seconds() -> float:
        start = time.perf_counter()
        assert len(preview(value, 300)) == 301
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.02


def test_a_mask_replaces_all_but_the_shape_and_text_keys() -> None:
    def mask(value: Any) -> str:
        return f"‹{type(value).__name__}›"

    value = {"card": "4242", "raw": b"4242", "deep": [4242, {"none": None}], 4242: 1}
    masked = {"card": "‹str›", "raw": "‹bytes›", "deep": ["‹int›", {"none": "‹NoneType›"}], "‹int›": "‹int›"}
    assert to_json(value, leaf=mask) == masked
    assert json.loads(preview(value, 1000, leaf=mask)) == masked


PYTHON_VALUES = [
    (datetime(2027, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2027-01-02T03:04:05.000006+00:00"),
    (datetime(2027, 1, 2, 3, 4), "2027-01-02T03:04:00"),  # noqa: DTZ001
    (date(2027, 1, 2), "2027-01-02"),
    (clock_time(3, 4, 5), "03:04:05"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Decimal("10.50"), "10.50"),
    (timedelta(minutes=1, milliseconds=500), 60.5),
]


@pytest.mark.parametrize(("value", "form"), PYTHON_VALUES, ids=repr)
def test_times_ids_and_decimals_have_the_same_form_in_a_job_and_in_json(value: Any, form: Any) -> None:
    held = {"value": value, "in a list": [value], value: 1}
    key = form if isinstance(form, str) else str(form)
    assert decode_payload(encode_payload(held)) == {"value": form, "in a list": [form], form: 1}
    assert to_json(held) == {"value": form, "in a list": [form], key: 1}
