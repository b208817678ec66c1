"""Rows become the same jobs that the engine's own producer makes; and what cannot be a job is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from chasqui_engine.codec.envelope import decode_delayed, decode_job, encode_payload
from chasqui_engine.spark.write.chunks import Chunk, cut_chunks
from chasqui_engine.values.errors import ConfigError


def one(columns: dict[str, Any], payload_format: str | None = None, size: int = 1000) -> Chunk:
    (chunk,) = list(cut_chunks([pa.RecordBatch.from_pydict(columns)], size, payload_format, 3600))
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
    first = [(chunk.rows, chunk.digest) for chunk in cut_chunks([batch], 4, None, 0)]
    assert [rows for rows, _ in first] == [4, 4, 2]
    assert first == [(chunk.rows, chunk.digest) for chunk in cut_chunks([batch], 4, None, 0)]
    assert len({digest for _, digest in first}) == 3


def test_large_payloads_make_small_chunks() -> None:
    batch = pa.RecordBatch.from_pydict({"name": ["n"] * 3, "payload": pa.array([encode_payload(b"x" * 3_000_000)] * 3)})
    assert [chunk.rows for chunk in cut_chunks([batch], 1000, None, 0)] == [1, 1, 1]


@pytest.mark.parametrize("sizes", [(10, 90), (1,) * 100, (33, 33, 34), (0, 100, 0)])
@pytest.mark.parametrize("further", [{}, {"id": [f"i{n}" for n in range(100)]}])
def test_how_rows_come_in_batches_does_not_change_the_chunks(sizes: tuple[int, ...], further: dict[str, Any]) -> None:
    payloads = [encode_payload(b"x" * (300_000 if n % 7 == 0 else 5) + b"%d" % n) for n in range(100)]
    batch = pa.RecordBatch.from_pydict({"name": ["n"] * 100, "payload": pa.array(payloads), **further})
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    parts = [batch.slice(start, size) for start, size in zip(starts, sizes, strict=True)]
    found = [(chunk.rows, chunk.digest) for chunk in cut_chunks(parts, 30, None, 0)]
    assert found == [(chunk.rows, chunk.digest) for chunk in cut_chunks([batch], 30, None, 0)]
    assert sum(rows for rows, _ in found) == 100
    assert max(rows for rows, _ in found) <= 30


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"payload": ["1", "2", "3", "{oops"]}, "column payload, row 7 of its partition"),
        ({"name": ["a", "b", "x" * 300, "d"]}, "column name, row 6 of its partition"),
        ({"id": pa.array(["a", None, "c", "d"])}, "column id, row 5 of its partition .*: is null"),
        ({"delay_ms": [1, 2, -3, 4]}, "column delay_ms, row 6 of its partition .*: delay_ms must not be negative"),
        ({"attempts": [1, 2, 3, -4]}, "column attempts, row 7 of its partition"),
    ],
)
def test_a_row_that_cannot_be_a_job_is_named(columns: dict[str, Any], words: str) -> None:
    good = {"name": ["a"] * 4, "payload": ["1"] * 4, "id": ["i"] * 4, "delay_ms": [1] * 4, "attempts": [1] * 4}
    given = {name: values for name, values in good.items() if name in ("name", "payload") or name in columns}
    batches = [pa.RecordBatch.from_pydict({**given, **later}) for later in ({}, columns)]
    with pytest.raises(ConfigError, match=words):
        list(cut_chunks(batches, 2, None, 3600))


@pytest.mark.parametrize(
    "bad", [b"", b"\xc1", b"\xc0\xc0", b'{"a":1}', b"\x93\x01\x02", b"\xc4\x09short"], ids=lambda data: data.hex()
)
def test_binary_that_is_not_one_messagepack_value_is_refused(bad: bytes) -> None:
    good = encode_payload({"a": [1, "x"]})
    with pytest.raises(ConfigError, match=r"row 2 .* not one MessagePack value.*'payloadFormat', 'bytes'"):
        one({"name": ["n"] * 4, "payload": pa.array([good, None, bad, good], pa.binary())})


def test_json_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ConfigError, match="column payload, row 0"):
        one({"name": ["n"], "payload": ["[" * 3000 + "]" * 3000]})
    with pytest.raises(ConfigError, match="column payload, row 0"):
        one({"name": ["n"], "payload": ["[" * 100_000 + "]" * 100_000]})


def test_times_of_day_are_text() -> None:
    assert payload_of(pa.array([{"t": dt.time(10, 11, 12)}])) == {"t": "10:11:12"}
