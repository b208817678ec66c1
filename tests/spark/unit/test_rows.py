"""Rows become the same jobs that the engine's own producer makes; and what cannot be a job is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from chasqui_engine.codec import decode_delayed, decode_job, encode_payload
from chasqui_engine.errors import ConfigError
from chasqui_engine.spark.rows import Chunk, chunks


def one(columns: dict[str, Any], payload_format: str | None = None, size: int = 1000) -> Chunk:
    (chunk,) = list(chunks(pa.RecordBatch.from_pydict(columns), size, payload_format, 3600))
    return chunk


def payload_of(array: pa.Array, payload_format: str | None = None) -> Any:
    chunk = one({"name": ["n"], "payload": array}, payload_format)
    assert chunk.plain is not None
    return decode_job(chunk.plain[1]).payload  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("array", "payload_format", "expected"),
    [
        (pa.array([{"a": 1, "b": ["x", None]}]), None, {"a": 1, "b": ["x", None]}),
        (pa.array([{"a": {"b": Decimal("1.50")}}]), None, {"a": {"b": "1.50"}}),
        (
            pa.array([{"at": dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)}]),
            None,
            {"at": "2026-01-02T03:04:05+00:00"},
        ),
        (pa.array([{"on": dt.date(2026, 1, 2)}]), None, {"on": "2026-01-02"}),
        (pa.array([[("k", 1), ("l", None)]], pa.map_(pa.string(), pa.int64())), None, {"k": 1, "l": None}),
        (
            pa.array([{"m": [("k", b"x")]}], pa.struct([("m", pa.map_(pa.string(), pa.binary()))])),
            None,
            {"m": {"k": b"x"}},
        ),
        (pa.array([encode_payload({"z": 1})], pa.binary()), None, {"z": 1}),
        (pa.array([b"\x00raw"], pa.binary()), "bytes", b"\x00raw"),
        (pa.array(['{"a":[1,2.5,null]}']), None, {"a": [1, 2.5, None]}),
        (pa.array(['  {"a": 1}\n']), None, {"a": 1}),
        (pa.array(["just text"]), "text", "just text"),
        (pa.array([None], pa.string()), None, None),
        (pa.array([None], pa.struct([("a", pa.int32())])), None, None),
        (pa.array([None], pa.binary()), None, None),
    ],
)
def test_payloads(array: pa.Array, payload_format: str | None, expected: Any) -> None:
    assert payload_of(array, payload_format) == expected


def test_rows_for_now_are_name_and_envelope() -> None:
    chunk = one({"name": ["a", None], "payload": ['{"n":1}', "2"]})
    assert chunk.plain is not None
    assert chunk.plain[::2] == ["a", ""]
    jobs = [decode_job(envelope) for envelope in chunk.plain[1::2]]  # type: ignore[arg-type]
    assert [job.payload for job in jobs] == [{"n": 1}, 2]
    assert len({job.id for job in jobs}) == 2
    assert all(job.attempt == 0 and job.retry is None for job in jobs)


def test_retry_columns_become_the_jobs_own_limits() -> None:
    chunk = one(
        {
            "name": ["a", "b", "c"],
            "payload": ["1", "1", "1"],
            "attempts": [5, None, None],
            "backoff_kind": ["fixed", None, None],
            "backoff_delay_ms": [100, None, 7],
        }
    )
    assert chunk.plain is not None
    first, second, third = (decode_job(envelope).retry for envelope in chunk.plain[1::2])  # type: ignore[arg-type]
    assert first is not None
    assert first.max_attempts == 5
    assert first.backoff is not None
    assert (first.backoff.kind, first.backoff.delay_ms) == ("fixed", 100)
    assert second is None
    assert third is not None
    assert third.backoff is not None
    assert third.backoff.kind == "exponential"


def test_rows_with_a_time_become_members_of_the_delayed_set() -> None:
    at = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=5)
    chunk = one(
        {"name": ["a", "b", "c"], "payload": ["1"] * 3, "delay_ms": [50, None, None], "run_at": [None, at, None]}
    )
    first, second, third = chunk.mixed
    assert (first.delay_ms, first.run_at_ms) == (50, None)
    assert decode_delayed(first.member)[0] == "a"
    assert (second.delay_ms, second.run_at_ms) == (None, int(at.timestamp() * 1000))
    assert third.member == b""
    assert not any(job.own_id for job in chunk.mixed)


def test_own_ids_are_kept() -> None:
    chunk = one({"name": ["a"], "payload": ["1"], "id": ["order-7"]})
    assert chunk.mixed[0].job_id == "order-7"
    assert chunk.mixed[0].own_id
    assert decode_job(chunk.mixed[0].envelope).id == "order-7"


@pytest.mark.parametrize(
    "columns",
    [
        {"id": [None]},
        {"id": [" "]},
        {"delay_ms": [-1]},
        {"delay_ms": [4_000_000]},
        {"delay_ms": [1], "run_at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)]},
        {"backoff_kind": ["fixed"]},
        {"backoff_kind": ["odd"], "backoff_delay_ms": [1]},
        {"attempts": [-1]},
        {"name": ["x" * 300]},
        {"payload": ["{not json"]},
        {"payload": ["1,2"]},
        {"payload": [""]},
    ],
)
def test_what_cannot_be_a_job_is_refused(columns: dict[str, Any]) -> None:
    given = {"name": ["a"], "payload": ["1"], **columns}
    if given.get("id") == [None]:
        given["id"] = pa.array([None], pa.string())
    with pytest.raises(ConfigError):
        one(given)


def test_chunks_fall_the_same_way_every_time() -> None:
    batch = pa.RecordBatch.from_pydict({"name": ["n"] * 10, "payload": [f"{n}" for n in range(10)]})
    first = [(chunk.rows, chunk.digest) for chunk in chunks(batch, 4, None, 0)]
    assert [rows for rows, _ in first] == [4, 4, 2]
    assert first == [(chunk.rows, chunk.digest) for chunk in chunks(batch, 4, None, 0)]
    assert len({digest for _, digest in first}) == 3


def test_large_payloads_make_small_chunks() -> None:
    batch = pa.RecordBatch.from_pydict({"name": ["n"] * 3, "payload": pa.array([b"\xc4\x00" + b"x" * 3_000_000] * 3)})
    assert [chunk.rows for chunk in chunks(batch, 1000, None, 0)] == [1, 1, 1]
