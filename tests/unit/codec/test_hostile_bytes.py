"""Bytes that nobody meant to write, or somebody wrote on purpose: a `DecodeError`, in little time and memory."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
import tracemalloc
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from chasqui_engine import DecodeError, Job, RepeatableSpec, RepeatPattern
from chasqui_engine.codec import envelope as codec
from chasqui_engine.codec.envelope import (
    decode_delayed,
    decode_failure,
    decode_id,
    decode_job,
    decode_payload,
    encode_failure,
    encode_job,
    encode_payload,
    with_attempt,
)
from chasqui_engine.codec.repeatable import decode_spec, encode_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MIB = 1024 * 1024

# A busy machine is no reason to fail.
untimed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
JOB = encode_job(Job(id="id", payload={"a": [1, 2, {"b": b"z"}]}, created_at_ms=1, attempt=2))
SPEC = encode_spec(RepeatableSpec("n", RepeatPattern.every(1000), {"a": 1}))
FAILURE = encode_failure("retries_exhausted", "ValueError: x", 3)

DECODERS: tuple[Callable[[bytes], Any], ...] = (
    decode_job,
    decode_payload,
    decode_delayed,
    decode_spec,
    decode_failure,
    lambda data: with_attempt(data, 1),
)


def only_decode_errors(decode: Callable[[bytes], Any], data: bytes) -> None:
    try:
        decode(data)
    except DecodeError as err:
        said = str(err)
    else:
        return
    assert len(said) > len("[CMQ-003] ")


headers = st.sampled_from([bytes([byte]) for byte in range(256)])
shaped = st.lists(st.one_of(headers, st.binary(max_size=6)), max_size=30).map(b"".join)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
        st.binary(max_size=8),
        st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=8)),
        st.builds(msgpack.Timestamp, st.integers(0, 2**32)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=9), st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)),
    max_leaves=15,
)


@untimed
@given(data=st.one_of(st.binary(max_size=120), shaped, values.map(msgpack.packb)))
@example(data=b"")
@example(data=b"\xc1")
def test_any_bytes(data: bytes) -> None:
    for decode in DECODERS:
        only_decode_errors(decode, data)


@untimed
@given(fields=st.lists(values, min_size=3, max_size=10))
def test_the_right_shape_with_anything_in_it(fields: list[Any]) -> None:
    for decode in DECODERS:
        only_decode_errors(decode, msgpack.packb(fields))


@pytest.mark.parametrize(
    ("decode", "whole"),
    [(decode_job, JOB), (decode_spec, SPEC), (decode_failure, FAILURE)],
    ids=["job", "spec", "failure"],
)
def test_cut_short_anywhere(decode: Callable[[bytes], Any], whole: bytes) -> None:
    decode(whole)
    for end in range(len(whole)):
        with pytest.raises(DecodeError):
            decode(whole[:end])


@pytest.mark.parametrize(
    ("decode", "whole"),
    [(decode_job, JOB), (decode_spec, SPEC), (decode_failure, FAILURE)],
    ids=["job", "spec", "failure"],
)
@untimed
@given(place=st.integers(0, 200), byte=st.integers(0, 255))
def test_one_byte_wrong(decode: Callable[[bytes], Any], whole: bytes, place: int, byte: int) -> None:
    place %= len(whole)
    only_decode_errors(decode, whole[:place] + bytes([byte]) + whole[place + 1 :])


@pytest.mark.parametrize(
    "payload",
    [
        b"\xa1\xff",  # text that is no UTF-8
        b"\xa3\xed\xa0\x80",  # half of a surrogate pair
        b"\x81\x90\x01",  # a list as a map's key
        b"\x81\x80\x01",  # a map as a map's key
        b"\xd4\xff\x00",  # a timestamp of a length that there is not
        b"\xd7\xff" + b"\xff" * 8,  # a timestamp with two seconds' worth of nanoseconds
        b"\xc1",  # the one header that is not used
        b"\xdd\xff\xff\xff\xff",  # a list of four thousand million
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x05",
        b"\x91" * 5000 + b"\xc0",  # nested deeper than anybody means
        b"\x81\xa1a" * 5000 + b"\xc0",
        b"",
        b"\xc0\xc0",
    ],
    ids=lambda payload: payload[:8].hex(),
)
def test_a_payload_of_no_use(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_payload(payload)
    envelope = msgpack.packb(["id", payload, 1, 0])
    with pytest.raises(DecodeError):
        decode_job(envelope)
    # The job can still be told apart, counted and put aside.
    assert decode_id(envelope) == "id"
    assert with_attempt(envelope, 1) == msgpack.packb(["id", payload, 1, 1])


@pytest.mark.parametrize(
    "payload",
    [
        b"\xcb\x7f\xf8\0\0\0\0\0\0",  # not a number
        b"\xcb\x7f\xf0\0\0\0\0\0\0",
        b"\x81\xcb\x7f\xf8\0\0\0\0\0\0\x01",  # … as a key
        b"\x82\xa1a\x01\xa1a\x02",  # the same key twice
        b"\xd6\xff\0\0\0\x01",  # a timestamp
        b"\xd4\x05\x00",  # a type of somebody's own
        b"\x81\xc0\x01",
        b"\x81\x01\x01",
    ],
    ids=lambda payload: payload.hex(),
)
def test_what_is_odd_but_allowed(payload: bytes) -> None:
    job = decode_job(msgpack.packb(["id", payload, 1, 0]))
    if payload != b"\x82\xa1a\x01\xa1a\x02":
        assert encode_payload(job.payload) == payload


@pytest.mark.parametrize("nested", [b"\xdd", b"\xdf"], ids=["lists", "maps"])
@pytest.mark.parametrize("size", [4096, MIB])
def test_lengths_that_are_lies_cost_little(nested: bytes, size: int) -> None:
    """A list within a list within a list, each announcing as many elements as there are bytes."""
    header = nested + struct.pack(">I", size // 3)
    lies = (header * 500).ljust(size, b"\xc0")[:size]
    envelope = msgpack.packb(["id", lies, 1, 0])
    with little_memory():
        for data in (lies, envelope, b"\x94" + lies):
            with pytest.raises(DecodeError):
                decode_job(data)
            decode_id(data)


def test_an_id_that_is_a_lie_costs_little() -> None:
    with little_memory():
        assert decode_id(b"\x94" + b"\xdd\x05\xf5\xe1\x00" * 100) is None
        assert decode_id(b"\x94\xdb\xff\xff\xff\xff") is None


def test_the_id_of_a_giant_is_found_without_reading_all_of_it() -> None:
    """An envelope may be larger than any worker accepts; what it is called must still be told."""
    giant = msgpack.packb(["id", b"\0" * (110 * MIB), 1, 0])
    started = time.monotonic()
    assert decode_id(giant) == "id"
    assert time.monotonic() - started < 0.5
    assert decode_id(msgpack.packb(["x" * MIB, b"\xc0", 1, 0])) is None


@contextmanager
def little_memory() -> Iterator[None]:
    """Fails when more than 32 MiB were asked for at any one time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 32 * MIB
    finally:
        tracemalloc.stop()


def test_an_error_without_words_is_named_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    class SilentError(Exception):
        pass

    def silent(*_: Any, **__: Any) -> Any:
        raise SilentError

    monkeypatch.setattr(codec, "msgpack", SimpleNamespace(unpackb=silent))
    with pytest.raises(DecodeError, match="not valid MessagePack: SilentError"):
        decode_payload(b"\xc0")


@pytest.mark.parametrize("decode", [decode_job, decode_payload, decode_spec, decode_failure])
def test_a_lack_of_memory_is_not_the_fault_of_the_bytes(
    decode: Callable[[bytes], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def out_of_memory(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(codec, "msgpack", SimpleNamespace(unpackb=out_of_memory))
    with pytest.raises(MemoryError):
        decode(JOB)


def test_a_process_short_of_memory_takes_no_good_job_for_a_bad_one() -> None:
    """A real limit: the lists of a job of a megabyte take 64 MiB."""
    code = """
import resource
from chasqui_engine.codec.envelope import decode_payload
data = b"\\xdd" + (2**20).to_bytes(4, "big") + b"\\x90" * 2**20
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 24 * 2**20,) * 2)
try:
    decode_payload(data)
except MemoryError:
    print("short of memory")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout == "short of memory\n"
