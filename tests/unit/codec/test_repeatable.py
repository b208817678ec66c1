"""Repeatable specs and their fires: what is written comes back, to the byte."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui_engine import BackoffSpec, DecodeError, JobRetryOverride, MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine.codec.envelope import encode_envelope, encode_payload
from chasqui_engine.codec.repeatable import decode_spec, encode_fire, encode_spec
from tests.unit.codec.test_envelope import NOW_MS, payloads, retries, text, untimed

epochs = st.integers(0, 2**53)
patterns = st.one_of(
    st.builds(RepeatPattern.every, st.integers(1, 2**53)),
    st.sampled_from([RepeatPattern.cron("0 2 * * *"), RepeatPattern.cron("*/5 * * * * *", tz="Asia/Kolkata")]),
)
policies = st.one_of(
    st.just(MissedFiresPolicy.skip()),
    st.just(MissedFiresPolicy.fire_once()),
    st.builds(MissedFiresPolicy.fire_all, st.integers(1, 2**32 - 1)),
)
specs = st.builds(
    RepeatableSpec,
    text,
    patterns,
    payloads,
    key=text,
    limit=st.none() | st.integers(1, 2**64 - 1),
    start_after_ms=st.none() | st.integers(0, 2**50),
    end_before_ms=st.none() | st.integers(2**50 + 1, 2**53),
    missed_fires=policies,
    retry=retries,
)


@untimed
@given(specs)
def test_a_spec_comes_back_as_it_was(spec: RepeatableSpec) -> None:
    assert decode_spec(encode_spec(spec)) == spec.with_key(spec.resolved_key())


@untimed
@given(specs)
def test_a_fire_holds_the_payload_and_the_limits_of_its_spec(spec: RepeatableSpec) -> None:
    envelope = encode_fire(encode_spec(spec), "fire", NOW_MS)
    assert envelope == encode_envelope("fire", encode_payload(spec.payload), NOW_MS, 0, spec.retry)


@untimed
@given(specs)
def test_a_spec_is_as_long_as_what_it_says(spec: RepeatableSpec) -> None:
    """ChasquiMQ 1.3.0 reads no spec of ten elements, so one is written only where it is asked for."""
    fields = msgpack.unpackb(encode_spec(spec), strict_map_key=False)
    skips = spec.missed_fires.kind == "skip"
    assert len(fields) == (10 if spec.retry is not None else 8 if skips else 9)
    if len(fields) == 10 and skips:
        assert fields[8] == "Skip"


def test_the_limits_are_the_tenth_element_as_in_an_envelope() -> None:
    retry = JobRetryOverride(5, BackoffSpec.fixed(250))
    fields = msgpack.unpackb(encode_spec(RepeatableSpec("n", RepeatPattern.every(1000), 1, retry=retry)))
    assert fields[8:] == ["Skip", [5, ["fixed", 250, None, None, None]]]


@pytest.mark.parametrize(
    "retry", [[3, None], [None, ["fixed", 5]], [3, ["linear", 5, None, None, None, "newer"], "newer"]]
)
def test_the_limits_of_another_producer_go_into_a_fire_byte_for_byte(retry: list[Any]) -> None:
    data = msgpack.packb(["k", "n", {"Every": [1000]}, msgpack.packb(b"\x01"), None, None, None, 0, None, retry])
    assert decode_spec(data).retry is not None
    assert encode_fire(data, "fire", NOW_MS) == msgpack.packb(["fire", b"\x01", NOW_MS, 0, retry])


def test_limits_may_be_nil() -> None:
    data = msgpack.packb(["k", "n", {"Every": [1000]}, msgpack.packb(b"\x01"), None, None, None, 0, "Skip", None])
    assert decode_spec(data).retry is None
    assert encode_fire(data, "fire", NOW_MS) == msgpack.packb(["fire", b"\x01", NOW_MS, 0])


def test_a_fire_of_a_typed_producer_keeps_its_payload_inline() -> None:
    pattern, inline = {"Every": [1000]}, msgpack.packb({"to": "ada"})
    data = msgpack.packb(["k", "n", pattern, inline, None, None, None, 0])
    assert decode_spec(data).payload == {"to": "ada"}
    assert encode_fire(data, "fire", NOW_MS) == msgpack.packb(["fire", {"to": "ada"}, NOW_MS, 0])


@pytest.mark.parametrize("policy", [None, "Skip"])
def test_skip_may_be_said_or_left_out(policy: str | None) -> None:
    data = msgpack.packb(["k", "n", {"Every": [1000]}, b"\xc0", None, None, None, 0, policy])
    assert decode_spec(data).missed_fires == MissedFiresPolicy.skip()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, 5),
        (1, None),
        (2, {}),
        (2, []),
        (2, {"Every": []}),
        (2, {"Every": [0]}),
        (2, {"Every": ["1"]}),
        (2, {"Cron": []}),
        (2, {"Cron": ["nonsense", None]}),
        (2, {"Cron": [5, None]}),
        (2, {"Cron": ["* * * * *", "Mars/Olympus"]}),
        (2, {"Never": [1]}),
        (3, b""),
        (3, b"\xc1"),
        (3, "text"),
        (3, None),
        (4, -1),
        (4, "3"),
        (5, -1),
        (6, 1.5),
        (8, {"FireAll": []}),
        (8, {"FireAll": [0]}),
        (8, {"FireAll": None}),
        (8, "FireTwice"),
        (8, 5),
        (9, 5),
        (9, [3]),
        (9, [-1, None]),
        (9, [3, ["fixed", "soon"]]),
    ],
    ids=repr,
)
def test_what_is_no_spec(place: int, value: Any) -> None:
    fields: list[Any] = ["k", "n", {"Every": [1000]}, b"\xc0", None, None, None, 0, None, None]
    assert decode_spec(msgpack.packb(fields)).key == "k"
    fields[place] = value
    with pytest.raises(DecodeError):
        decode_spec(msgpack.packb(fields))
