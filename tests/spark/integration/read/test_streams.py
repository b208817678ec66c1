"""Queues as streams: offsets, limits, losses, restarts; and streams into queues."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.integration.conftest import Queues, run_to_end
from tests.spark.integration.read.test_batch_read import fill_events
from tests.spark.integration.write.test_batch_write import payloads

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql import DataFrame


class Sink:
    """Runs a stream to its present end, and keeps what each batch held."""

    def __init__(self, folder: Path) -> None:
        self.checkpoint = str(folder / "checkpoint")
        self.batches: dict[int, list[Any]] = {}

    def run(self, frame: DataFrame, *, fail_at: int | None = None) -> list[Any]:
        def keep(batch: DataFrame, number: int) -> None:
            found = batch.collect()
            if number == fail_at:
                raise RuntimeError("dies before this batch is committed")
            self.batches[number] = found

        run_to_end(frame.writeStream.foreachBatch(keep).option("checkpointLocation", self.checkpoint))
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def job_ids(rows: list[Any]) -> list[str]:
    return [row.job_id for row in rows]


def expected(count: int) -> list[str]:
    return [f"j{n}" for n in range(count)]


@pytest.mark.slow
def test_what_is_there_is_read_and_the_next_run_goes_on(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 300)
    sink = Sink(tmp_path)
    frame = q.follow("events")
    assert job_ids(sink.run(frame)) == expected(300)
    fill_events(client, q.key("events"), 50, start=300)
    assert job_ids(sink.run(frame)) == expected(350)
    assert job_ids(sink.run(frame)) == expected(350)
    offset = json.loads((tmp_path / "checkpoint" / "offsets" / "1").read_text().splitlines()[-1])
    assert offset["added"] == 350
    assert client.xlen(q.key("events")) == 350
    assert client.xinfo_groups(q.key("events")) == []


@pytest.mark.slow
def test_batches_are_limited_and_split(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 2500)
    sink = Sink(tmp_path)
    rows = sink.run(q.follow("events", maxRowsPerTrigger=1000, minPartitions=2, pageSize=50))
    assert sorted(job_ids(rows)) == sorted(expected(2500))
    assert [len(sink.batches[n]) for n in sorted(sink.batches)] == [1000, 1000, 500]


@pytest.mark.slow
def test_a_batch_that_was_not_committed_is_read_again_the_same(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 400)
    sink = Sink(tmp_path)
    with pytest.raises(Exception, match="dies before this batch"):
        sink.run(q.follow("events", maxRowsPerTrigger=150), fail_at=1)
    fill_events(client, q.key("events"), 10, start=400)
    rows = sink.run(q.follow("events", maxRowsPerTrigger=150))
    assert sorted(job_ids(rows)) == sorted(expected(410))
    assert len(sink.batches[1]) == 150


@pytest.mark.parametrize(
    "start",
    ["latest", "timestamp", *(pytest.param(start, marks=pytest.mark.slow) for start in ("earliest", "id", "json"))],
)
def test_where_a_query_begins(q: Queues, client: redis.Redis, tmp_path: Path, start: str) -> None:
    for n in range(10):
        client.xadd(q.key("events"), {"e": "active", "id": f"j{n}", "ts": n}, id=f"{1000 + n}-5")
    options: dict[str, Any] = {
        "earliest": {"startingOffsets": "earliest"},
        "latest": {"startingOffsets": "latest"},
        "id": {"startingOffsets": "1003-5"},
        "json": {"startingOffsets": '{"id": "1003-5"}'},
        "timestamp": {"startingTimestamp": "1004"},
    }[start]
    sink = Sink(tmp_path)
    rows = sink.run(q.follow("events", **options))
    first = {"earliest": 0, "latest": 10}.get(start, 4)
    assert job_ids(rows) == expected(10)[first:]


@pytest.mark.slow
def test_a_trim_that_was_too_early_is_told_with_its_number(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 100)
    sink = Sink(tmp_path)
    sink.run(q.follow("events"))
    fill_events(client, q.key("events"), 100, start=100)
    client.xtrim(q.key("events"), maxlen=63, approximate=False)
    with pytest.raises(Exception, match=r"37 entries of the events of queue .* were trimmed"):
        sink.run(q.follow("events"))
    rows = sink.run(q.follow("events", failOnDataLoss="false"))
    assert job_ids(rows) == expected(100) + expected(200)[137:]


@pytest.mark.slow
def test_a_trim_of_what_was_read_is_no_loss(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 100)
    sink = Sink(tmp_path)
    sink.run(q.follow("events"))
    fill_events(client, q.key("events"), 20, start=100)
    client.xtrim(q.key("events"), maxlen=20, approximate=False)
    assert job_ids(sink.run(q.follow("events"))) == expected(120)


@pytest.mark.slow
@pytest.mark.parametrize("entity", ["jobs", "dead"])
def test_entries_that_were_deleted_by_name_are_no_loss(
    q: Queues, client: redis.Redis, tmp_path: Path, entity: str
) -> None:
    from chasqui_engine.codec.envelope import encode_envelope

    key = q.key("stream" if entity == "jobs" else "dlq")
    ids = [client.xadd(key, {"d": encode_envelope(f"j{n}", b"\xc0", 1)}) for n in range(6)]
    sink = Sink(tmp_path)
    assert job_ids(sink.run(q.follow(entity))) == expected(6)
    ids += [client.xadd(key, {"d": encode_envelope(f"j{n}", b"\xc0", 1)}) for n in range(6, 10)]
    client.xdel(key, *ids[2:8])
    assert job_ids(sink.run(q.follow(entity))) == [*expected(6), "j8", "j9"]


def test_progress_says_where_a_query_is_and_how_far_behind(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 250)
    ends = [entry_id.decode() for entry_id, _ in client.xrange(q.key("events"))]
    writer = q.follow("events", maxRowsPerTrigger=100).writeStream.format("noop")
    query = run_to_end(writer.option("checkpointLocation", str(tmp_path / "checkpoint")))
    batches = [progress for progress in query.recentProgress if progress.numInputRows]
    assert [progress.numInputRows for progress in batches] == [100, 100, 50]
    told = [progress.sources[0] for progress in batches]
    assert [json.loads(source.endOffset)["id"] for source in told] == [ends[99], ends[199], ends[249]]
    latest = [json.loads(source.latestOffset) for source in told]
    assert [at["behindRows"] for at in latest] == [150, 50, 0]
    assert latest[-1] == {"id": ends[-1], "added": 250, "behindRows": 0, "behindMs": 0}
    assert all(source.processedRowsPerSecond > 0 for source in told)


def test_entities_that_are_no_streams_are_refused(q: Queues, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="delayed cannot be read as a stream"):
        Sink(tmp_path).run(q.follow("delayed"))


def start_write(q: Queues, target: str, tmp_path: Path, **options: Any) -> None:
    """A stream of events, each made a job of another queue."""
    frame = q.follow("events", maxRowsPerTrigger=100, minPartitions=2, pageSize=10)
    if options.pop("fails", False):
        frame = frame.withColumn(
            "job_id", F.expr("if(job_id = 'j150' and rand() >= 0, raise_error('half-way'), job_id)")
        )
    jobs = frame.select(F.lit("follow").alias("name"), F.struct("job_id").alias("payload"))
    writer = jobs.writeStream.format("chasqui").option("url", q.url).option("queue", target).option("chunkSize", "10")
    run_to_end(writer.option("checkpointLocation", str(tmp_path / "out")))


@pytest.mark.slow
def test_a_stream_restarted_from_its_checkpoint_adds_each_row_once(
    q: Queues, client: redis.Redis, tmp_path: Path
) -> None:
    fill_events(client, q.key("events"), 250)
    target = f"{q.queue}-out"
    with pytest.raises(Exception, match="half-way"):
        start_write(q, target, tmp_path, fails=True)
    out = Queues(q.spark, q.url, target)
    partly = client.xlen(out.key("stream"))
    assert 100 < partly < 250
    start_write(q, target, tmp_path)
    assert sorted(payload["job_id"] for payload in payloads(client, out)) == sorted(expected(250))
    # Only the last batch can ever come again: its fence is all that is left.
    assert len(client.keys(out.key("bulk:*"))) == 1


def test_a_batch_that_was_written_but_not_committed_is_not_added_again(
    q: Queues, client: redis.Redis, tmp_path: Path
) -> None:
    fill_events(client, q.key("events"), 100)
    target = f"{q.queue}-out"
    start_write(q, target, tmp_path)
    # As if the driver had died between the last task and the commit.
    for name in ("0", ".0.crc"):
        (tmp_path / "out" / "commits" / name).unlink(missing_ok=True)
    start_write(q, target, tmp_path)
    assert client.xlen(f"{{chasqui:{target}}}:stream") == 100
