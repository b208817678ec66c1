"""One bad entry is one bad row: what a Spark task reads of a queue that anybody wrote into. No Spark needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack
import pytest
import redis

from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.read.filters import Narrowed
from chasqui_engine.spark.read.partition import plan_delayed, read_delayed, read_repeatables, read_results, read_stream
from chasqui_engine.spark.read.splits import IdRange
from chasqui_engine.spark.schemas import arrow_schema
from tests.support.hostile.pills import EVERY, Pill, envelope, pills

if TYPE_CHECKING:
    from collections.abc import Iterator

ENTITIES = {
    "stream": "jobs",
    "dlq": "dead",
    "events": "events",
    "delayed": "delayed",
    "repeat": "repeatables",
    "result": "results",
    "failure": "results",
}
_SPEC = msgpack.packb(["good", "n", EVERY, msgpack.packb(b"\xc0"), None, None, None, 0])
GOOD = {
    "stream": {"d": envelope("good"), "n": "n"},
    "dlq": {"d": envelope("good"), "n": "n", "reason": "malformed"},
    "events": {"e": "completed", "id": "good", "ts": "1", "attempt": "1"},
    "delayed": ("5", b"\0\0\0\0" + envelope("good")),
    "repeat": ("1", _SPEC),
    "result": b"\x01",
    "failure": msgpack.packb(["r", None, 1]),
}


@pytest.fixture
def client(valkey_url: str, queue_name: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as client:
        yield client
        clear(client, queue_name)


def clear(client: redis.Redis, queue: str) -> None:
    for key in client.scan_iter(f"{{chasqui:{queue}}}:*"):
        client.delete(key)


def rows(place: QueueLocation, entity: str) -> list[dict[str, Any]]:
    schema = arrow_schema(entity)
    if entity == "delayed":
        with place.connect() as connection:
            parts = plan_delayed(connection, place.keys.delayed, Narrowed(), wanted=2, page_size=1)
        batches = [batch for low, high in parts for batch in read_delayed(place, low, high, schema, 2)]
    elif entity == "repeatables":
        batches = list(read_repeatables(place, schema, 2))
    elif entity == "results":
        batches = list(read_results(place, schema, 2, {}))
    else:
        batches = list(read_stream(place, entity, IdRange("0-0", f"{2**64 - 1}-{2**64 - 1}"), schema, 2))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("where", list(ENTITIES))
def test_one_bad_entry_is_one_row_among_good_ones(
    client: redis.Redis, valkey_url: str, queue_name: str, where: str
) -> None:
    place = QueueLocation(url=valkey_url, queue=queue_name)
    found = [pill for pill in pills() if pill.where == where]
    assert found
    for pill in found:
        Pill("good", where, GOOD[where]).put(client, queue_name)
        pill.put(client, queue_name)
        read = rows(place, ENTITIES[where])
        assert len(read) == 2, str(pill)
        assert "good" in [row["key" if where == "repeat" else "job_id"] for row in read], str(pill)
        clear(client, queue_name)


@pytest.mark.parametrize(
    ("fired", "count"), [(b"7", 7), (b"9" * 5000, 0), (b"9" * 20, 0), (b"-1", 0), ("٣".encode(), 0), (b"", 0)]
)
@pytest.mark.parametrize("key", [b"key", b"\xff\xfe"])
def test_a_repeatable_with_any_count_under_any_key_is_read(
    client: redis.Redis, valkey_url: str, queue_name: str, key: bytes, fired: bytes, count: int
) -> None:
    root = f"{{chasqui:{queue_name}}}:repeat".encode()
    client.zadd(root, {key: 1})
    client.hset(root + b":spec:" + key, mapping={"spec": _SPEC, "fired": fired})  # type: ignore[arg-type]
    (row,) = rows(QueueLocation(url=valkey_url, queue=queue_name), "repeatables")
    assert (row["key"], row["job_name"], row["fired"]) == (key.decode(errors="replace"), "n", count)


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("attempt-u32", "attempt", 2**32 - 1),
        ("max-attempts-u32", "max_attempts", 2**32 - 1),
        ("backoff-u64", "backoff_delay_ms", None),
        ("created-u64", "created_at", None),
        ("deep-1000", "job_id", "deep-1000"),
        ("deep-inline", "job_id", "deep-inline"),
        ("deep-5000", "job_id", None),
    ],
)
def test_a_row_says_what_its_columns_can_hold(
    client: redis.Redis, valkey_url: str, queue_name: str, name: str, column: str, value: Any
) -> None:
    next(pill for pill in pills() if str(pill) == f"stream-{name}").put(client, queue_name)
    (row,) = rows(QueueLocation(url=valkey_url, queue=queue_name), "jobs")
    assert row[column] == value
    assert row["envelope"], "the job as it was written is there in any case"
