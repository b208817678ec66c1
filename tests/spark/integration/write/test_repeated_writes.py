"""A write that is run again: it adds what is missing, or says why it cannot, and never adds a row twice."""

from __future__ import annotations

import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.integration.conftest import Queues
from tests.spark.integration.write.test_batch_write import failing_once, payloads, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from pyspark.sql import DataFrame


def numbers(client: redis.Redis, q: Queues) -> list[int]:
    return sorted(payload["id"] for payload in payloads(client, q))


def broken(q: Queues, count: int, at: int, partitions: int = 2) -> DataFrame:
    """Rows of which one cannot be a job."""
    text = F.expr(f"if(id = {at}, '{{oops', concat('{{\"id\":', id, '}}'))")
    return q.spark.range(0, count, 1, partitions).select(F.lit("n").alias("name"), text.alias("payload"))


def whole(q: Queues, count: int, partitions: int = 2) -> DataFrame:
    return broken(q, count, -1, partitions)


@pytest.mark.parametrize(
    ("before", "after"), [(2, 1), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in ((2, 4), (2, 3), (3, 2)))]
)
def test_other_partitions_are_refused_and_nothing_is_added(
    q: Queues, client: redis.Redis, before: int, after: int
) -> None:
    q.write(rows(q, 4000, before), writeId="w")
    with pytest.raises(Exception, match=f"{before} partitions"):
        q.write(rows(q, 4000, after), writeId="w")
    assert client.xlen(q.key("stream")) == 4000
    q.write(rows(q, 4000, before), writeId="w")
    assert numbers(client, q) == list(range(4000))


def made_up_id(told: pytest.ExceptionInfo[Exception]) -> str:
    found = re.search(r"option\('writeId', '([0-9a-f]+)'\)", str(told.value))
    assert found is not None
    return found[1]


@contextmanager
def arrow_batches(q: Queues, size: int) -> Iterator[None]:
    q.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(size))
    try:
        yield
    finally:
        q.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def test_a_write_that_failed_tells_the_row_and_how_to_go_on(
    q: Queues, client: redis.Redis, said: Callable[[], str]
) -> None:
    words = r"column payload, row 1900 of its partition .* not JSON"
    with arrow_batches(q, 500), pytest.raises(Exception, match=words) as told:
        q.write(broken(q, 4000, 3900), chunkSize=100)
    write_id = made_up_id(told)
    assert write_id in said(), "the driver says it too, whatever the reason was"
    partly = client.xlen(q.key("stream"))
    assert 1500 <= partly < 4000
    with pytest.raises(Exception, match="was begun with 2 partitions and this run has 1"):
        q.write(whole(q, 4000, 1), writeId=write_id, chunkSize=100)
    with pytest.raises(Exception, match="was begun with chunks of 100 rows, and this run has chunks of 1000"):
        q.write(whole(q, 4000), writeId=write_id)
    assert client.xlen(q.key("stream")) == partly
    q.write(whole(q, 4000), writeId=write_id, chunkSize=100)
    assert numbers(client, q) == list(range(4000))


@pytest.mark.slow
def test_how_rows_come_in_batches_does_not_matter(q: Queues, client: redis.Redis) -> None:
    with arrow_batches(q, 70), pytest.raises(Exception, match="not JSON"):
        q.write(broken(q, 2000, 1900), writeId="w", chunkSize=100)
    assert 0 < client.xlen(q.key("stream")) < 2000
    with arrow_batches(q, 300):
        q.write(whole(q, 2000), writeId="w", chunkSize=100)
    assert client.keys(q.key("bulk:*:waiting:*")) == []
    assert numbers(client, q) == list(range(2000))


def with_ids(frame: DataFrame) -> DataFrame:
    return frame.withColumn("id", F.col("payload.id").cast("string"))


def test_a_row_with_an_id_is_added_once_by_a_write_also_when_its_id_is_free_again(
    q: Queues, client: redis.Redis
) -> None:
    q.write(with_ids(rows(q, 100)), writeId="nightly-1", dedupTtlSeconds=1)
    time.sleep(1.2)
    assert client.exists(q.key("dlid:5")) == 0
    q.write(with_ids(rows(q, 100, 3)), writeId="nightly-1", dedupTtlSeconds=1)
    assert client.xlen(q.key("stream")) == 100
    assert client.ttl(q.key("bulk:nightly-1:ids")) > 3600
    q.write(with_ids(rows(q, 100)), writeId="nightly-2")
    assert client.xlen(q.key("stream")) == 200, "another write may use it"


@pytest.mark.slow
@pytest.mark.parametrize("fence", ["id", "chunk", None])
def test_a_task_that_is_retried_adds_rows_with_ids_once(q: Queues, client: redis.Redis, fence: str | None) -> None:
    with arrow_batches(q, 100):
        frame = with_ids(rows(q, 2000))
        again = frame.mapInArrow(failing_once("raises"), frame.schema)
        q.write(again, chunkSize=50, dedupTtlSeconds=1, **({} if fence is None else {"fence": fence}))
    assert numbers(client, q) == list(range(2000))
    (mark,) = client.keys(q.key("bulk:*"))
    assert mark.endswith(b":ids") == (fence != "chunk")
    assert 0 < client.ttl(mark) <= 3600, "nobody can name this write"


@pytest.mark.slow
def test_a_fence_by_chunk_holds_rows_with_ids_too(q: Queues, client: redis.Redis) -> None:
    for _ in range(2):
        q.write(with_ids(rows(q, 100)), writeId="w", fence="chunk", dedupTtlSeconds=1)
        time.sleep(1.2)
    assert client.xlen(q.key("stream")) == 100
    with pytest.raises(Exception, match="fence=id needs a column id"):
        q.write(rows(q, 100), fence="id")


@pytest.mark.slow
def test_a_write_waits_for_room(q: Queues, client: redis.Redis) -> None:
    q.write(rows(q, 100, 1), maxStreamLen=100)
    started = time.monotonic()
    timer = threading.Timer(3, lambda: client.xtrim(q.key("stream"), maxlen=0, approximate=False))
    timer.start()
    q.write(rows(q, 80, 1), maxStreamLen=100, whenFull="wait", fullTimeoutSeconds=60)
    timer.join()
    assert time.monotonic() - started >= 3
    assert numbers(client, q) == list(range(80))


def refused(frame: DataFrame, q: Queues, words: str, *save: str, **options: Any) -> None:
    writer = frame.write.format("chasqui").options(url=q.url, queue=q.queue, **options).mode("append")
    with pytest.raises(Exception, match=words):
        writer.save(*save)


def test_what_would_say_nothing_is_refused(q: Queues, client: redis.Redis) -> None:
    frame = rows(q, 1)
    refused(frame, q, "a queue has no path", "emails")
    refused(frame, q, r"startingOffsets is an option of spark\.readStream", startingOffsets="latest")
    refused(frame, q, "chunkSize=1000 never fits into maxStreamLen=500", chunkSize="1000", maxStreamLen="500")
    for name, value in (("startingOffsets", "latest"), ("maxRowsPerTrigger", "3"), ("failOnDataLoss", "true")):
        with pytest.raises(Exception, match=rf"{name} is an option of spark\.readStream and has no effect here"):
            q.read(**{name: value}).collect()
    with pytest.raises(Exception, match=r"writeId is an option of df\.write"):
        q.read(writeId="x").collect()
    with pytest.raises(Exception, match="a queue has no path"):
        q.spark.read.format("chasqui").options(url=q.url, queue=q.queue).load("some/path").collect()
    assert client.exists(q.key("stream")) == 0


@pytest.mark.slow
def test_payloads_that_no_job_can_hold_are_refused_with_their_column(q: Queues, client: redis.Redis) -> None:
    one = q.spark.range(1)
    kinds = {
        "named_struct('i', interval '1' day)": r"payload\.i is interval day",
        "named_struct('a', named_struct('y', interval '1' year))": r"payload\.a\.y is interval year",
        "named_struct('v', parse_json('1'))": r"payload\.v is variant",
        "map(named_struct('k', 1), 'a')": "payload is a map with keys of struct",
        "concat(repeat('[', 3000), repeat(']', 3000))": "column payload, row 0 .* nested too deeply",
        "encode('{\"a\":1}', 'utf-8')": "row 0 .* is not one MessagePack value.*'payloadFormat', 'bytes'",
    }
    for expression, words in kinds.items():
        refused(one.select(F.lit("n").alias("name"), F.expr(expression).alias("payload")), q, words)
    assert client.xlen(q.key("stream")) == 0
