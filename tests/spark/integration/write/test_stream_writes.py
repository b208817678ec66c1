"""Streams into queues: restarted from their checkpoint, they add each row once, whatever has changed meanwhile."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.integration.conftest import CONN_ID, Queues, run_to_end
from tests.spark.integration.read.test_batch_read import fill_events
from tests.spark.integration.write.test_batch_write import payloads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis
    from pyspark.sql import Column


class Copying:
    """Each event of a queue becomes a job of another."""

    def __init__(self, q: Queues, folder: Path, **columns: Column) -> None:
        self._q, self._columns = q, columns
        self._checkpoint = folder / "checkpoint"
        self.out = Queues(q.spark, q.url, f"{q.queue}-out")

    def run(self, *, read: dict[str, Any] | None = None, **options: str) -> None:
        frame = self._q.follow("events", pageSize=10, **(read or {}))
        jobs = frame.select(F.lit("n").alias("name"), F.struct("job_id").alias("payload"), *self._named())
        sink = jobs.writeStream.format("chasqui").options(url=self._q.url, queue=self.out.queue, **options)
        run_to_end(sink.option("checkpointLocation", str(self._checkpoint)))

    def _named(self) -> list[Column]:
        return [column.alias(name) for name, column in self._columns.items()]

    def forget_that_it_was_done(self, batch: int = 0) -> None:
        """As if the driver had died right before it noted the batch."""
        for name in (str(batch), f".{batch}.crc"):
            (self._checkpoint / "commits" / name).unlink(missing_ok=True)

    def ids(self, client: redis.Redis) -> list[str]:
        return sorted(payload["job_id"] for payload in payloads(client, self.out))


EXPECTED = sorted(f"j{n}" for n in range(200))


@pytest.mark.parametrize("later", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_other_cores_after_a_restart_do_not_add_rows_again(
    q: Queues, client: redis.Redis, tmp_path: Path, later: int
) -> None:
    fill_events(client, q.key("events"), 200)
    copying = Copying(q, tmp_path)
    copying.run(read={"minPartitions": 2}, chunkSize="10")
    assert copying.ids(client) == EXPECTED
    copying.forget_that_it_was_done()
    copying.run(read={"minPartitions": later}, chunkSize="10")
    assert copying.ids(client) == EXPECTED


@pytest.mark.slow
def test_rows_with_ids_and_times_are_added_once_also_when_their_ids_are_free_again(
    q: Queues, client: redis.Redis, tmp_path: Path
) -> None:
    fill_events(client, q.key("events"), 200)
    number = F.expr("int(substr(job_id, 2))")
    copying = Copying(
        q,
        tmp_path,
        id=F.col("job_id"),
        delay_ms=F.when(number % 3 == 1, 3_600_000),
        run_at=F.when(number % 3 == 2, F.timestamp_millis(F.lit(4_000_000_000_000))),
    )
    for _ in range(2):
        copying.run(read={"minPartitions": 2}, chunkSize="10", dedupTtlSeconds="1", maxDelaySeconds="0")
        copying.forget_that_it_was_done()
        time.sleep(1.2)
    assert len(copying.ids(client)) == 67
    delayed = copying.out.read("delayed").collect()
    assert sorted(copying.ids(client) + [row.job_id for row in delayed]) == EXPECTED
    assert sum(row.run_at.year > 2090 for row in delayed) == 66


@pytest.mark.slow
def test_other_chunks_after_a_restart_are_refused(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 200)
    copying = Copying(q, tmp_path)
    copying.run(chunkSize="10")
    copying.forget_that_it_was_done()
    with pytest.raises(Exception, match="was begun with chunks of 10 rows, and this run has chunks of 20"):
        copying.run(chunkSize="20")
    assert copying.ids(client) == EXPECTED


@pytest.mark.slow
def test_a_stream_is_named_by_its_query_not_by_a_write_id(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 1)
    with pytest.raises(Exception, match=r"writeId is an option of df\.write"):
        Copying(q, tmp_path).run(writeId="w")


@pytest.mark.slow
def test_a_connection_of_airflows_and_a_start_in_iso_8601(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    for n in range(10):
        client.xadd(q.key("events"), {"e": "active", "id": f"j{n}", "ts": n}, id=f"{1_700_000_000_000 + n}-5")
    stream = q.spark.readStream.format("chasqui").options(connId=CONN_ID, queue=q.queue)
    frame = stream.option("startingTimestamp", "2023-11-14T22:13:20.004").load()
    jobs = frame.select(F.lit("n").alias("name"), F.struct("job_id").alias("payload"))
    out = Queues(q.spark, q.url, f"{q.queue}-out")
    sink = jobs.writeStream.format("chasqui").options(connId=CONN_ID, queue=out.queue)
    run_to_end(sink.option("checkpointLocation", str(tmp_path / "checkpoint")))
    assert [payload["job_id"] for payload in payloads(client, out)] == [f"j{n}" for n in range(4, 10)]


@pytest.mark.slow
def test_a_batch_has_as_many_partitions_as_were_asked_for_and_tells_what_was_lost(
    q: Queues, client: redis.Redis, tmp_path: Path, said: Callable[[], str]
) -> None:
    fill_events(client, q.key("events"), 50)
    seen: list[tuple[int, int]] = []

    def keep(batch: Any, number: int) -> None:
        parts = batch.groupBy(F.spark_partition_id()).count().collect()
        seen.append((len(parts), sum(row["count"] for row in parts)))

    def follow(**options: object) -> None:
        sink = q.follow("events", minPartitions=5, **options).writeStream.foreachBatch(keep)
        run_to_end(sink.option("checkpointLocation", str(tmp_path / "checkpoint")))

    follow()
    fill_events(client, q.key("events"), 50, start=50)
    client.xtrim(q.key("events"), maxlen=33, approximate=False)
    follow(failOnDataLoss="false")
    assert seen == [(5, 50), (5, 33)]
    assert "17 entries of the events" in said()


def test_a_trim_while_a_batch_is_worked_on_fails_the_query(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 1000)

    def late(batch: Any, number: int) -> None:
        client.xtrim(q.key("events"), maxlen=300, approximate=False)
        batch.collect()

    sink = q.follow("events").writeStream.foreachBatch(late).option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match=r"700 entries of the events .* were trimmed before they were read"):
        run_to_end(sink)
