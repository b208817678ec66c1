"""Bulk enqueue: N rows are N jobs, also when Spark runs a task twice."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.codec.envelope import decode_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from pyspark.sql import DataFrame

    from tests.spark.integration.conftest import Queues


def rows(q: Queues, count: int, partitions: int = 2) -> DataFrame:
    frame = q.spark.range(0, count, 1, partitions)
    return frame.select(F.lit("send").alias("name"), F.struct("id", F.lit("x").alias("to")).alias("payload"))


def payloads(client: redis.Redis, q: Queues) -> list[Any]:
    entries: list[Any] = client.xrange(q.key("stream"))
    return [decode_job(fields[b"d"]).payload for _, fields in entries]


def test_rows_become_jobs(q: Queues, client: redis.Redis) -> None:
    q.write(rows(q, 3500), chunkSize=1000)
    assert sorted(payload["id"] for payload in payloads(client, q)) == list(range(3500))
    entry = client.xrange(q.key("stream"), count=1)[0][1]
    assert entry[b"n"] == b"send"
    job = decode_job(entry[b"d"])
    assert abs(job.created_at_ms - time.time() * 1000) < 120_000
    fence = client.keys(q.key("bulk:*"))
    assert len(fence) == 1
    assert 0 < client.ttl(fence[0]) <= 3600


def test_every_kind_of_payload(q: Queues, client: redis.Redis) -> None:
    base = q.spark.range(1)
    for payload in (
        F.struct(F.lit(1).alias("a")),
        F.create_map(F.lit("a"), F.lit(1)),
        F.lit('{"a": 1}'),
        F.lit(bytearray(b"\x81\xa1a\x01")),
    ):
        q.write(base.select(F.lit("n").alias("name"), payload.alias("payload")))
    assert payloads(client, q) == [{"a": 1}] * 4


def test_delays_times_ids_and_retries(q: Queues, client: redis.Redis) -> None:
    far = dt.datetime(2100, 1, 1)  # noqa: DTZ001 - Spark takes it in the session's zone, UTC
    data = [
        ("now", "1", None, None, "a", 3),
        ("soon", "2", 60_000, None, "b", None),
        ("far", "3", None, far, "c", None),
        ("past", "4", None, dt.datetime(2020, 1, 1), "d", None),  # noqa: DTZ001
    ]
    schema = "name string, payload string, delay_ms bigint, run_at timestamp, id string, attempts int"
    frame = q.spark.createDataFrame(data, schema)
    for _ in range(2):
        q.write(frame, maxDelaySeconds=0)
    assert sorted(payloads(client, q)) == [1, 4]
    delayed = {row.job_id: row for row in q.read("delayed").collect()}
    assert set(delayed) == {"b", "c"}
    assert delayed["c"].run_at == far
    soon = delayed["b"].run_at.replace(tzinfo=dt.UTC) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(seconds=10) < soon <= dt.timedelta(seconds=60)
    first = next(row for row in q.read("jobs").collect() if row.job_id == "a")
    assert first.max_attempts == 3
    told = [row.job_id for row in q.read("events").collect() if row.event == "delayed"]
    assert sorted(told) == ["b", "c"]
    assert client.ttl(q.key("dlid:a")) > 0


def failing_once(how: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            context = TaskContext.get()
            if number == 3 and context.partitionId() == 1 and context.attemptNumber() == 0:
                if how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("this attempt dies half-way")
            yield batch

    return fail


@pytest.mark.parametrize("how", [pytest.param("raises", marks=pytest.mark.slow), "killed"])
def test_a_task_that_is_retried_adds_each_row_once(q: Queues, client: redis.Redis, how: str) -> None:
    q.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        frame = rows(q, 6000).mapInArrow(failing_once(how), "name string, payload struct<id:bigint,to:string>")
        q.write(frame, chunkSize=200)
    finally:
        q.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sorted(payload["id"] for payload in payloads(client, q)) == list(range(6000))


@pytest.mark.slow
def test_how_long_marks_and_ids_stay_is_the_users_to_say(q: Queues, client: redis.Redis) -> None:
    q.write(rows(q, 2), writeId="w", fenceTtlSeconds=500)
    (mark,) = client.keys(q.key("bulk:*"))
    assert 0 < client.ttl(mark) <= 500
    frame = rows(q, 350, 1).withColumn("id", F.col("payload.id").cast("string")).withColumn("delay_ms", F.lit(60_000))
    q.write(frame, dedupTtlSeconds=400, eventsMaxLen=1)
    assert 60 < client.ttl(q.key("dlid:0")) <= 60 + 400, "for so long after it is due"
    assert client.xlen(q.key("events")) < 350, "trimmed, as far as whole nodes of the stream allow"
    with pytest.raises(Exception, match="is over maxDelaySeconds=10"):
        q.write(frame, maxDelaySeconds=10)


@pytest.mark.slow
def test_payloads_as_they_are_and_backoffs_of_a_jobs_own(q: Queues, client: redis.Redis) -> None:
    text = q.spark.createDataFrame([("n", "plain words")], "name string, payload string")
    q.write(text, payloadFormat="text")
    q.write(text.withColumn("payload", F.encode("payload", "utf-8")), payloadFormat="bytes")
    backoff = {
        "attempts": F.lit(4),
        "backoff_kind": F.lit("exponential"),
        "backoff_delay_ms": F.lit(100),
        "backoff_max_delay_ms": F.lit(5000),
        "backoff_multiplier": F.lit(3.0),
        "backoff_jitter_ms": F.lit(7),
    }
    q.write(rows(q, 1).withColumns(backoff))
    assert payloads(client, q) == ["plain words", b"plain words", {"id": 0, "to": "x"}]
    last = q.read("jobs").orderBy(F.desc("entry_id")).first()
    columns = ("max_attempts", "backoff_kind", "backoff_delay_ms", "backoff_max_delay_ms", "backoff_multiplier")
    assert [last[column] for column in columns] == [4, "exponential", 100, 5000, 3.0]
    assert last.backoff_jitter_ms == 7


@pytest.mark.slow
def test_a_write_with_a_name_of_its_own_can_be_run_again(q: Queues, client: redis.Redis) -> None:
    for _ in range(3):
        q.write(rows(q, 1200), writeId="nightly-1", chunkSize=100)
    assert client.xlen(q.key("stream")) == 1200
    q.write(rows(q, 1200), writeId="nightly-2")
    assert client.xlen(q.key("stream")) == 2400


def test_a_plan_that_does_not_repeat_itself_is_told(q: Queues, client: redis.Redis) -> None:
    q.write(rows(q, 100), writeId="w")
    with pytest.raises(Exception, match="with other rows"):
        q.write(rows(q, 100).withColumn("name", F.lit("other")), writeId="w")
    assert client.xlen(q.key("stream")) == 100


@pytest.mark.slow
def test_rows_with_ids_are_added_once_in_whatever_order(q: Queues, client: redis.Redis) -> None:
    frame = rows(q, 500).withColumn("id", F.col("payload.id").cast("string"))
    q.write(frame.orderBy(F.rand(1)))
    q.write(frame.orderBy(F.rand(2)).repartition(3))
    assert client.xlen(q.key("stream")) == 500


@pytest.mark.slow
def test_without_a_fence_a_second_write_adds_again(q: Queues, client: redis.Redis) -> None:
    for _ in range(2):
        q.write(rows(q, 10), writeId="w", fence="none")
    assert client.xlen(q.key("stream")) == 20


def test_overwrite_is_refused_with_a_sentence(q: Queues, client: redis.Redis) -> None:
    with pytest.raises(Exception, match="a queue cannot be overwritten"):
        rows(q, 1).write.format("chasqui").option("url", q.url).option("queue", q.queue).mode("overwrite").save()
    assert client.xlen(q.key("stream")) == 0


def test_a_wrong_schema_is_found_before_anything_is_written(q: Queues, client: redis.Redis) -> None:
    with pytest.raises(Exception, match="'payload' must be"):
        q.write(rows(q, 10).withColumn("payload", F.lit(1)))
    with pytest.raises(Exception, match="unknown column 'delay'"):
        q.write(rows(q, 10).withColumn("delay", F.lit(1)))
    assert client.exists(q.key("stream")) == 0


def test_a_row_that_cannot_be_a_job_fails_the_write(q: Queues) -> None:
    frame = q.spark.createDataFrame([("n", "{oops")], "name string, payload string")
    with pytest.raises(Exception, match="not JSON"):
        q.write(frame)


@pytest.mark.slow
def test_a_full_queue_is_refused_and_the_write_can_go_on_later(q: Queues, client: redis.Redis) -> None:
    with pytest.raises(Exception, match="has no room within maxStreamLen=150"):
        q.write(rows(q, 300, 1), writeId="w", maxStreamLen=150, chunkSize=100)
    assert client.xlen(q.key("stream")) == 100
    q.write(rows(q, 300, 1), writeId="w", maxStreamLen=300, chunkSize=100)
    assert sorted(payload["id"] for payload in payloads(client, q)) == list(range(300))
    with pytest.raises(Exception, match="has no room"):
        q.write(rows(q, 10, 1), maxStreamLen=300, whenFull="wait", fullTimeoutSeconds=1)
    q.write(rows(q, 200, 1), maxStreamLen=100, whenFull="trim")
    assert client.xlen(q.key("stream")) <= 300


@pytest.mark.slow
def test_a_rate_is_kept_over_all_tasks(q: Queues, client: redis.Redis) -> None:
    started = time.monotonic()
    q.write(rows(q, 600), maxRowsPerSecond=300)
    assert time.monotonic() - started >= 1.5
    assert client.xlen(q.key("stream")) == 600


@pytest.mark.slow
def test_jobs_written_by_spark_are_worked_off_by_the_engine(q: Queues, client: redis.Redis) -> None:
    import asyncio

    from tests.spark.integration.read.test_batch_read import work_off

    q.write(rows(q, 20))
    done: list[int] = []

    async def handler(job: Any) -> None:
        done.append(job.payload["id"])

    asyncio.run(work_off(q.url, q.queue, handler, until=lambda: len(done) == 20))
    assert sorted(done) == list(range(20))
    assert json.loads(q.read("results").collect()[0].result_json or "null") is None
