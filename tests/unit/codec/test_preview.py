"""The beginning of a job, at a cost that does not grow with it."""

from __future__ import annotations

import time
from typing import Any

import msgpack
import pytest

from chasqui_engine.codec.envelope import decode_job, encode_job
from chasqui_engine.codec.preview import glimpse_job
from chasqui_engine.payload_json import preview
from chasqui_engine.values.errors import DecodeError
from chasqui_engine.values.job import Job

CHARS = 300
MEGABYTE = b"\xdd" + (1_000_000).to_bytes(4, "big") + b"\x90" * 1_000_000


def envelope(payload: Any) -> bytes:
    return encode_job(Job(id="job-1", payload=payload, created_at_ms=1_700_000_000_000, attempt=2))


def inline(payload: bytes) -> bytes:
    """As a typed Rust producer writes it."""
    return b"\x94" + bytes(msgpack.packb("job-1")) + payload + bytes(msgpack.packb(1_700_000_000_000)) + b"\x02"


@pytest.mark.parametrize(
    "payload",
    [
        [[] for _ in range(5000)],
        [[1] for _ in range(5000)],
        list(range(5000)),
        [-(2**63)] * 500,
        [0.1] * 500,
        "é😀" * 5000,
        ["x" * 50] * 500,
        {f"key-{n}": {"a": [n, None, True]} for n in range(500)},
        {"text": "x" * 5000},
        {n: n for n in range(500)},
    ],
    ids=lambda payload: str(payload)[:30],
)
def test_it_makes_the_first_characters_of_the_whole(payload: Any) -> None:
    for data in (envelope(payload), inline(bytes(msgpack.packb(payload)))):
        seen = glimpse_job(data, "n", CHARS)
        assert (seen.id, seen.attempt, seen.created_at_ms, seen.name) == ("job-1", 2, 1_700_000_000_000, "n")
        assert preview(seen.payload, CHARS) == preview(payload, CHARS)


@pytest.mark.parametrize("payload", [None, 1, "x", {"a": [1, {"b": b"bytes"}]}, "x" * 290])
def test_a_small_job_is_whole(payload: Any) -> None:
    assert glimpse_job(envelope(payload), "n", 1000) == decode_job(envelope(payload), "n")
    assert glimpse_job(envelope(payload), "n", None) == decode_job(envelope(payload), "n")


def test_bytes_are_cut() -> None:
    seen = glimpse_job(envelope({"raw": b"\xff" * 100_000}), "", CHARS)
    assert seen.payload["raw"].startswith(b"\xff" * CHARS)
    assert len(seen.payload["raw"]) < 10 * CHARS


def test_nesting_without_end_is_cut() -> None:
    seen = glimpse_job(inline(b"\x91" * 900 + b"\x01"), "", CHARS).payload
    for _ in range(61):
        [seen] = seen
    assert seen == "…"


def test_a_megabyte_of_empty_lists_costs_little() -> None:
    packed = msgpack.packb(["job-1", MEGABYTE, 1_700_000_000_000, 0])
    began = time.process_time()
    for _ in range(50):
        glimpse_job(packed, "", CHARS)
    # Decoding fifty takes half a minute.
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1" * 5000,
        b"\x91" + b"\xa1x" * 5000,
        bytes(msgpack.packb(["id", "p" * 5000])),
        bytes(msgpack.packb([5, "p" * 5000, 1, 0])),
        bytes(msgpack.packb(["id", "p" * 5000, 1, 2**40])),
        bytes(msgpack.packb(["id", "p" * 5000, 1, 0, [[]] * 50_000])),
        bytes(msgpack.packb(["x" * 50_000, "p", 1, 0])),
        bytes(msgpack.packb(["id", b"\xc1" * 5000, 1, 0])),
        bytes(msgpack.packb(["id", b"\x81\x90" + b"\x90" * 5000, 1, 0])),
    ],
    ids=range(10),
)
def test_what_cannot_be_read_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        glimpse_job(data, "", CHARS)
