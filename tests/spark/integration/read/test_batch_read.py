"""Every entity as a DataFrame, from queues that the engine itself filled."""

from __future__ import annotations

import datetime as dt
import json
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by

from chasqui_engine import HandlerError, Queue, RepeatPattern, Worker
from chasqui_engine.codec.envelope import encode_delayed, encode_envelope
from chasqui_engine.spark.schemas import COLUMNS
from tests.spark.integration.conftest import Queues, run_to_end

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql import SparkSession


async def work_off(url: str, queue: str, handler: Any, *, until: Any) -> None:
    import asyncio

    worker = Worker(queue, handler, redis_url=url, store_results=True, max_attempts=1)
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(30):
            while not until():  # noqa: ASYNC110 - what is waited for is in the server
                await asyncio.sleep(0.02)
    finally:
        await worker.close()
        await running


@pytest.mark.parametrize("entity", list(COLUMNS))
def test_an_empty_queue_has_the_entitys_columns_and_no_rows(q: Queues, entity: str) -> None:
    frame = q.read(entity)
    assert dict(frame.dtypes) == COLUMNS[entity]
    assert [row for row in frame.collect() if row.asDict().get("rows") != 0] == []


async def test_events_results_and_dead_letters_of_real_work(q: Queues, client: redis.Redis) -> None:
    async def handler(job: Any) -> Any:
        if job.payload["n"] == 2:
            raise HandlerError("two\r\nlines")
        return {"doubled": job.payload["n"] * 2}

    async with Queue(q.queue, redis_url=q.url) as queue:
        for n in range(5):
            await queue.add("double", {"n": n}, attempts=1)
        await work_off(q.url, q.queue, handler, until=lambda: client.xlen(q.key("stream")) == 0)

    events = q.read("events").orderBy("entry_id").collect()
    kinds = sorted(row.event for row in events if row.event != "drained")
    assert kinds == ["active"] * 5 + ["completed"] * 4 + ["dlq", "failed"]
    failed = next(row for row in events if row.event == "failed")
    assert "two\r\nlines" in failed.reason
    assert failed.attempt == 1
    assert failed.duration_us >= 0
    assert failed.name == "double"
    assert abs(failed.ts.replace(tzinfo=dt.UTC) - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=2)

    dead = q.read("dead").collect()
    assert len(dead) == 1
    assert json.loads(dead[0].payload_json) == {"n": 2}
    assert dead[0].job_id == failed.job_id
    assert dead[0].reason in ("retries_exhausted", "unrecoverable")
    assert dead[0].max_attempts == 1

    results = {row.job_id: row for row in q.read("results").collect()}
    assert sorted(json.loads(row.result_json)["doubled"] for row in results.values() if row.outcome == "completed") == [
        0,
        2,
        6,
        8,
    ]
    assert results[failed.job_id].outcome == "dead"
    assert results[failed.job_id].attempts == 1
    assert results[failed.job_id].expires_at is not None


async def test_jobs_delayed_and_repeatables(q: Queues, client: redis.Redis) -> None:
    at = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    async with Queue(q.queue, redis_url=q.url, max_delay_secs=0) as queue:
        await queue.add("a", {"x": b"\x00\xff", "t": "é"}, attempts=7, backoff={"kind": "fixed", "delay_ms": 5})
        await queue.add("b", [1, None], delay_ms=at)
        await queue.upsert_repeatable_job(
            "c", {"r": 1}, repeat=RepeatPattern.cron("0 9 * * *", tz="Europe/Madrid"), limit=3
        )
        await queue.upsert_repeatable_job("d", None, repeat=RepeatPattern.every(60_000))
    client.xadd(q.key("stream"), {"d": b"not an envelope"})

    jobs = q.read("jobs").orderBy("entry_id").collect()
    assert (jobs[0].name, jobs[0].max_attempts, jobs[0].backoff_kind, jobs[0].backoff_delay_ms) == ("a", 7, "fixed", 5)
    assert json.loads(jobs[0].payload_json) == {"x": {"$bytes": "AP8="}, "t": "é"}
    assert jobs[0].attempt == 0
    assert (jobs[1].job_id, jobs[1].payload, bytes(jobs[1].envelope)) == (None, None, b"not an envelope")

    (delayed,) = q.read("delayed").collect()
    assert delayed.run_at == at.replace(tzinfo=None)
    assert (delayed.name, delayed.payload_json) == ("b", "[1,null]")

    cron, every = q.read("repeatables").orderBy("job_name").collect()
    assert (cron.kind, cron.expression, cron.tz, cron.limit) == ("cron", "0 9 * * *", "Europe/Madrid", 3)
    assert (every.kind, every.interval_ms, every.payload_json) == ("every", 60_000, "null")
    assert every.next_fire is not None
    assert client.xinfo_groups(q.key("stream")) == []


def fill_events(client: redis.Redis, key: str, count: int, start: int = 0) -> None:
    pipe = client.pipeline(transaction=False)
    for n in range(start, start + count):
        pipe.xadd(
            key,
            {"e": "completed", "id": f"j{n}", "ts": 1_700_000_000_000 + n, "n": "x", "attempt": 1, "duration_us": n},
        )
    pipe.execute()


def test_ranges_are_split_and_every_row_comes_once(q: Queues, client: redis.Redis) -> None:
    fill_events(client, q.key("events"), 6000)
    frame = q.read("events", pageSize=100, minPartitions=4)
    parts = frame.groupBy(F.spark_partition_id().alias("part")).count().collect()
    assert len(parts) == 4
    assert sum(row["count"] for row in parts) == 6000
    assert max(row["count"] for row in parts) < 3000
    assert frame.select(F.countDistinct("entry_id"), F.sum("duration_us")).first()[:] == (6000, sum(range(6000)))


def test_a_page_with_line_breaks_in_it_reads_the_same(q: Queues, client: redis.Redis) -> None:
    fill_events(client, q.key("events"), 250)
    client.xadd(q.key("events"), {"e": "failed", "id": "x", "ts": 1, "reason": "a\r\n*2\r\n$1\r\nb"})
    fill_events(client, q.key("events"), 250, start=250)
    rows = q.read("events", pageSize=100).collect()
    assert len(rows) == 501
    assert [row.reason for row in rows if row.event == "failed"] == ["a\r\n*2\r\n$1\r\nb"]


def test_a_schema_of_ones_own_reads_only_those_columns(q: Queues, client: redis.Redis) -> None:
    fill_events(client, q.key("events"), 3)
    reader = q.spark.read.format("chasqui").option("url", q.url).option("queue", q.queue)
    frame = reader.schema("job_id string, duration_us bigint").load()
    assert sorted(frame.collect()) == [("j0", 0), ("j1", 1), ("j2", 2)]
    with pytest.raises(Exception, match="is bigint, not string"):
        reader.schema("duration_us string").load().collect()


@pytest.mark.slow
def test_delayed_jobs_are_split_by_time(q: Queues, client: redis.Redis) -> None:

    members = {
        encode_delayed("n", encode_envelope(f"j{n}", b"\xc0", n)): 4_000_000_000_000 + n // 7 for n in range(3000)
    }
    client.zadd(q.key("delayed"), members)
    frame = q.read("delayed", pageSize=50, minPartitions=4)
    assert frame.rdd.getNumPartitions() == 4
    assert frame.select(F.countDistinct("job_id"), F.count("*")).first()[:] == (3000, 3000)


@pytest.mark.slow
def test_registered_by_hand_it_reads_as_well(q: Queues, client: redis.Redis) -> None:
    from chasqui_engine.spark.source import ChasquiDataSource

    session = q.spark.newSession()
    session.dataSource.register(ChasquiDataSource)
    fill_events(client, q.key("events"), 2)
    frame = session.read.format("chasqui").option("url", q.url).option("queue", q.queue).load()
    assert len(frame.collect()) == 2


def test_bad_options_are_told_in_a_sentence(q: Queues) -> None:
    with pytest.raises(Exception, match="entity must be one of events, jobs"):
        q.read("nonsense")
    with pytest.raises(Exception, match="has no option 'pagezise'"):
        q.read("events", pageZise=3)


def test_a_server_that_is_not_there_is_named_without_its_password(q: Queues) -> None:
    reader = q.spark.read.format("chasqui").option("queue", "x")
    with pytest.raises(Exception, match=r"cannot reach the server at 127\.0\.0\.1:1") as told:
        reader.option("url", "redis://me:hunter2@127.0.0.1:1/0").load().collect()
    assert "hunter2" not in str(told.value)


def shown_in_ui(spark: SparkSession) -> list[str]:
    """What Spark's web pages and their API say about everything that has run so far."""
    context = spark.sparkContext
    api = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"
    paths = ["jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/", "StreamingQuery/"]
    places = [f"{context.uiWebUrl}/{path}" for path in paths]
    places += [f"{api}/{path}" for path in ("environment", "jobs", "stages", "sql?details=true&length=100000")]
    queries = json.loads(fetch(places[-1]))
    assert queries
    places += [f"{context.uiWebUrl}/SQL/execution/?id={query['id']}" for query in queries[-5:]]
    streams = re.findall(r"statistics/?\?id=([0-9a-f-]+)", fetch(f"{context.uiWebUrl}/StreamingQuery/"))
    assert streams
    places += [f"{context.uiWebUrl}/StreamingQuery/statistics/?id={stream}" for stream in streams]
    return [fetch(place) for place in places]


def fetch(url: str) -> str:
    # Whatever proxy the environment names is not for loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.slow
def test_a_password_shows_in_no_plan_no_log_and_no_page(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    client.acl_setuser("spark-reader", enabled=True, passwords=["+hunter2hunter2"], keys=["*"], commands=["+@all"])
    try:
        fill_events(client, q.key("events"), 3)
        url = q.url.replace("redis://", "redis://spark-reader:hunter2hunter2@")
        frame = q.spark.read.format("chasqui").option("url", url).option("queue", q.queue).load()
        assert frame.count() == 3
        jobs = q.spark.createDataFrame([("n", "1")], "name string, payload string")
        jobs.write.format("chasqui").option("url", url).option("queue", q.queue).mode("append").save()
        following = q.spark.readStream.format("chasqui").option("url", url).option("queue", q.queue).load()
        run_to_end(following.writeStream.format("noop").option("checkpointLocation", str(tmp_path)))
        assert "hunter2" not in "".join(shown_in_ui(q.spark))
        plan = frame._jdf.queryExecution().toString() + str(
            frame._jdf.queryExecution().explainString(
                q.spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("extended")
            )
        )
        assert "hunter2" not in plan
        logs = list(q.spark.event_log_folder.iterdir())  # type: ignore[attr-defined]
        text = "".join(path.read_text(errors="replace") for path in logs)
        assert "chasqui" in text
        assert "hunter2" not in text
    finally:
        client.acl_deluser("spark-reader")


@pytest.mark.parametrize("pushed", [True, False])
def test_filters_on_times_and_ids_reach_the_server(q: Queues, client: redis.Redis, pushed: bool) -> None:
    """Where Spark hands them over; and where it does not, the rows are the same."""
    pipe = client.pipeline(transaction=False)
    for n in range(2000):
        pipe.xadd(q.key("stream"), {"d": encode_envelope(f"j{n}", b"\xc0", 1), "n": "send"}, id=f"{1000 + n}-0")
        pipe.zadd(q.key("delayed"), {encode_delayed("send", encode_envelope(f"d{n}", b"\xc0", 1)): 1000.5 + n})
    pipe.execute()
    within = "between timestamp_millis(1990) and timestamp_millis(2009)"
    q.spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushed).lower())
    try:
        before = client.info("stats")["total_net_output_bytes"]
        jobs = q.read("jobs").where(f"ready_at {within}").select("job_id").collect()
        delayed = q.read("delayed").where(f"run_at {within}").select("job_id").collect()
        one = q.read("jobs").where("entry_id = '1003-0'").select("job_id").collect()
        sent = client.info("stats")["total_net_output_bytes"] - before
    finally:
        q.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    assert {row.job_id for row in jobs} == {f"j{n}" for n in range(990, 1010)}
    assert {row.job_id for row in delayed} == {f"d{n}" for n in range(990, 1010)}
    assert [row.job_id for row in one] == ["j3"]
    assert (sent < 100_000) == pushed
