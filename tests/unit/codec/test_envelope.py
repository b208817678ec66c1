"""Envelopes, delayed members and failure records: what is written comes back, to the byte."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chasqui_engine import (
    BackoffSpec,
    DecodeError,
    EncodeError,
    Job,
    JobRetryOverride,
)
from chasqui_engine.codec.envelope import (
    JobEncoder,
    decode_delayed,
    decode_failure,
    decode_id,
    decode_job,
    decode_payload,
    encode_delayed,
    encode_envelope,
    encode_envelopes,
    encode_failure,
    encode_job,
    encode_payload,
    encode_payloads,
    with_attempt,
)

NOW_MS = 1_794_796_241_499

# A busy machine is no reason to fail.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
ids = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)
whole = st.integers(-(2**63), 2**64 - 1)
keys = st.one_of(text, whole, st.binary(max_size=8), st.booleans(), st.none())
payloads = st.recursive(
    st.one_of(st.none(), st.booleans(), whole, st.floats(allow_nan=False), text, st.binary(max_size=40)),
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=20,
)
milliseconds = st.integers(0, 2**63 - 1)
backoffs = st.builds(
    BackoffSpec,
    st.one_of(st.sampled_from(["fixed", "exponential"]), text),
    milliseconds,
    st.none() | milliseconds,
    st.none() | st.floats(0, 1e18),
    st.none() | milliseconds,
)
retries = st.none() | st.builds(JobRetryOverride, st.none() | st.integers(0, 2**32 - 1), st.none() | backoffs)
jobs = st.builds(
    Job,
    id=ids,
    payload=payloads,
    created_at_ms=st.integers(0, 2**64 - 1),
    attempt=st.integers(0, 2**32 - 1),
    retry=retries,
    name=text,
)


@untimed
@given(jobs)
def test_a_job_comes_back_as_it_was(job: Job) -> None:
    assert decode_job(encode_job(job), job.name) == job


@untimed
@given(jobs)
def test_the_id_is_found_without_decoding_the_rest(job: Job) -> None:
    assert decode_id(encode_job(job)) == job.id


@untimed
@given(payloads)
def test_a_payload_comes_back_as_it_was(payload: Any) -> None:
    assert decode_payload(encode_payload(payload)) == payload


@untimed
@given(jobs)
def test_an_envelope_is_four_elements_or_five_and_the_payload_is_a_bin(job: Job) -> None:
    fields = msgpack.unpackb(encode_job(job), strict_map_key=False)
    assert len(fields) == (4 if job.retry is None else 5)
    assert fields[:4] == [job.id, encode_payload(job.payload), job.created_at_ms, job.attempt]


@untimed
@given(st.lists(jobs, max_size=5))
def test_one_encoder_for_many_jobs_writes_the_same_bytes(many: list[Job]) -> None:
    encoder = JobEncoder()
    for job in many:
        encoded = encoder.encode(job.id, job.payload, job.created_at_ms, job.retry)
        assert encoded == encode_job(dataclasses.replace(job, attempt=0))


@untimed
@given(st.lists(st.tuples(text, payloads), max_size=5))
def test_many_at_once_are_the_same_bytes(rows: list[tuple[str, Any]]) -> None:
    packed = encode_payloads(value for _, value in rows)
    assert packed == [encode_payload(value) for _, value in rows]
    ids = [job_id for job_id, _ in rows]
    one_by_one = [encode_envelope(job_id, data, NOW_MS) for job_id, data in zip(ids, packed, strict=True)]
    assert encode_envelopes(ids, packed, NOW_MS) == one_by_one


def test_one_of_many_that_cannot_be_encoded_is_an_error() -> None:
    with pytest.raises(EncodeError, match="cannot be written as MessagePack"):
        encode_payloads([1, object()])


def test_an_encoder_goes_on_after_what_it_could_not_encode() -> None:
    encoder = JobEncoder()
    with pytest.raises(EncodeError):
        encoder.encode("id", ["begun", object()], NOW_MS, None)
    assert encoder.encode("id", 1, NOW_MS, None) == encode_envelope("id", b"\x01", NOW_MS)


@untimed
@given(retries.filter(lambda retry: retry is not None))
def test_an_override_has_always_its_full_length(retry: JobRetryOverride) -> None:
    written = msgpack.unpackb(encode_envelope("id", b"\xc0", NOW_MS, 0, retry))[4]
    assert len(written) == 2
    if retry.backoff is not None:
        assert len(written[1]) == 5
        assert written[1][3] is None or type(written[1][3]) is float  # also when it was given as a whole number


def test_a_whole_multiplier_is_written_as_a_float() -> None:
    retry = JobRetryOverride(backoff=BackoffSpec("exponential", 1, multiplier=3))
    assert encode_envelope("id", b"\xc0", NOW_MS, 0, retry).endswith(bytes.fromhex("cb4008000000000000c0"))


@untimed
@given(
    st.builds(lambda job, inline: (job, inline), jobs, st.booleans()),
    st.integers(0, 2**32 - 1),
    st.lists(payloads, max_size=3),
)
def test_another_attempt_leaves_every_other_byte(
    job_and_inline: tuple[Job, bool], attempt: int, unknown: list[Any]
) -> None:
    job, inline = job_and_inline
    before = packed_elements(job, inline, unknown)
    header = bytes([0x90 | len(before)])
    changed = with_attempt(header + b"".join(before), attempt)
    before[3] = msgpack.packb(attempt)
    assert changed == header + b"".join(before)


def packed_elements(job: Job, inline: bool, unknown: list[Any]) -> list[bytes]:
    """The elements of an envelope as any producer might have written them, longer than we know it if need be."""
    payload = job.payload if inline else encode_payload(job.payload)
    elements: list[Any] = [job.id, payload, job.created_at_ms, job.attempt]
    if job.retry is not None or unknown:
        elements.append(None)
    return [msgpack.packb(element) for element in (*elements, *unknown)]


def test_another_attempt_leaves_lengths_and_numbers_in_the_form_they_had() -> None:
    """A producer need not write the shortest form; what it wrote is not ours to change."""
    array32, str32, bin32, uint64 = b"\xdd\0\0\0\x05", b"\xdb\0\0\0\x01i", b"\xc6\0\0\0\x01\xc0", b"\xcf" + b"\0" * 8
    retry = b"\xdc\0\x02\xcd\0\x07\xc0"
    envelope = array32 + str32 + bin32 + uint64 + uint64 + retry
    assert with_attempt(envelope, 3) == array32 + str32 + bin32 + uint64 + b"\x03" + retry
    assert decode_job(with_attempt(envelope, 3)).attempt == 3


@pytest.mark.parametrize("elements", [0, 1, 2, 3])
def test_no_attempt_can_be_set_in_what_is_too_short_for_an_envelope(elements: int) -> None:
    with pytest.raises(DecodeError):
        with_attempt(bytes([0x90 | elements]) + b"\xa1i\xc0\x00\x00", 1)


def test_a_payload_that_was_written_inline_is_accepted() -> None:
    envelope = msgpack.packb(["id", {"to": "ada"}, NOW_MS, 0])
    assert decode_job(envelope).payload == {"to": "ada"}


def test_an_override_of_nothing_is_none() -> None:
    assert decode_job(msgpack.packb(["id", b"\xc0", NOW_MS, 0, None])).retry is None


def test_what_a_newer_producer_appends_is_passed_over() -> None:
    retry = [7, ["fibonacci", 10, 20, 1.5, 5, "new"], "new"]
    job = decode_job(msgpack.packb(["id", b"\xc0", NOW_MS, 0, retry, "new", {"new": 1}]))
    assert job.retry == JobRetryOverride(7, BackoffSpec("fibonacci", 10, 20, 1.5, 5))


def test_a_kind_that_is_no_text_is_one_that_we_do_not_know() -> None:
    retry = decode_job(msgpack.packb(["id", b"\xc0", NOW_MS, 0, [None, [5, 10, None, None, None]]])).retry
    assert retry == JobRetryOverride(None, BackoffSpec("5", 10))


def test_an_empty_id_is_an_id() -> None:
    """ChasquiMQ runs such a job."""
    envelope = encode_envelope("", b"\xc0", NOW_MS)
    assert decode_job(envelope).id == decode_id(envelope) == ""


@pytest.mark.parametrize(
    "fields",
    [
        [5, b"\xc0", NOW_MS, 0],
        [b"id", b"\xc0", NOW_MS, 0],
        ["id", b"\xc0", 1.5, 0],
        ["id", b"\xc0", True, 0],
        ["id", b"\xc0", -1, 0],
        ["id", b"\xc0", NOW_MS, -1],
        ["id", b"\xc0", NOW_MS, 2**32],
        ["id", b"\xc0", NOW_MS, False],
        ["id", b"\xc0", NOW_MS, None],
        ["id", b"", NOW_MS, 0],
        ["id", b"\xc0\xc0", NOW_MS, 0],
        ["id", b"\xc0", NOW_MS],
        ["id", b"\xc0", NOW_MS, 0, 3],
        ["id", b"\xc0", NOW_MS, 0, []],
        ["id", b"\xc0", NOW_MS, 0, [3]],
        ["id", b"\xc0", NOW_MS, 0, "ab"],
        ["id", b"\xc0", NOW_MS, 0, {3: None, None: 1}],
        ["id", b"\xc0", NOW_MS, 0, [-1, None]],
        ["id", b"\xc0", NOW_MS, 0, [2**32, None]],
        ["id", b"\xc0", NOW_MS, 0, ["3", None]],
        ["id", b"\xc0", NOW_MS, 0, [3, "fixed"]],
        ["id", b"\xc0", NOW_MS, 0, [3, ["fixed"]]],
        ["id", b"\xc0", NOW_MS, 0, [3, ["fixed", None, None, None, None]]],
        ["id", b"\xc0", NOW_MS, 0, [3, ["fixed", 1.5, None, None, None]]],
        ["id", b"\xc0", NOW_MS, 0, [3, ["fixed", -1, None, None, None]]],
        ["id", b"\xc0", NOW_MS, 0, [3, ["fixed", 1, None, float("nan"), None]]],
        ["id", b"\xc0", NOW_MS, 0, [3, ["fixed", 1, None, float("inf"), None]]],
        ["id", b"\xc0", NOW_MS, 0, [3, ["fixed", 1, None, None, "1"]]],
        {},
        "id",
        None,
    ],
    ids=repr,
)
def test_what_is_no_envelope(fields: Any) -> None:
    with pytest.raises(DecodeError):
        decode_job(msgpack.packb(fields))


@pytest.mark.parametrize(
    "value", [object(), 2**64, -(2**63) - 1, {"a": {1, 2}}, "\ud800", 1j], ids=lambda value: type(value).__name__
)
def test_what_messagepack_cannot_hold_is_an_encode_error(value: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_payload(value)
    assert caught.value.code == "CMQ-002"
    assert caught.value.__cause__ is not None


def test_a_payload_that_contains_itself_is_an_encode_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(EncodeError):
        encode_payload(endless)


@untimed
@given(text, st.binary(max_size=80))
def test_a_delayed_member_comes_back_as_it_was(name: str, envelope: bytes) -> None:
    member = encode_delayed(name, envelope)
    assert member[:4] == len(name.encode()).to_bytes(4, "little")
    assert decode_delayed(member) == (name, envelope)


@untimed
@given(st.binary(max_size=3))
def test_a_delayed_member_is_not_shorter_than_its_first_number(member: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_delayed(member)


def test_a_delayed_member_is_not_shorter_than_the_name_it_announces() -> None:
    with pytest.raises(DecodeError):
        decode_delayed(b"\x05\0\0\0late")


def test_a_name_that_is_no_text_does_not_cost_the_job() -> None:
    assert decode_delayed(b"\x01\0\0\0\xff" + b"envelope") == ("�", b"envelope")


@untimed
@given(text, st.none() | text, st.integers(0, 2**32))
def test_a_failure_record_comes_back_as_it_was(reason: str, detail: str | None, attempt: int) -> None:
    assert decode_failure(encode_failure(reason, detail, attempt)) == (reason, detail, attempt)


@pytest.mark.parametrize(
    "fields", [None, [], ["r", None], [5, None, 1], ["r", 5, 1], ["r", None, "x"], ["r", None, None], ["r", None, True]]
)
def test_what_is_no_failure_record(fields: Any) -> None:
    with pytest.raises(DecodeError):
        decode_failure(msgpack.packb(fields))
