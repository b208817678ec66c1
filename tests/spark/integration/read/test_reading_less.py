"""Reads cost what is asked for: what the server sends, and what it is asked, for limits, columns and filters."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.codec.envelope import encode_delayed, encode_envelope, encode_payload
from tests.spark.integration.conftest import run_to_end
from tests.spark.integration.read.test_batch_read import fill_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from tests.spark.integration.conftest import Queues

EVENTS = 20_000
JSON = {"text": "x" * 100}


class Traffic:
    """What the server did while a block ran."""

    sent = 0
    commands: dict[str, int]


@contextmanager
def traffic(client: redis.Redis) -> Iterator[Traffic]:
    found = Traffic()
    before, calls = client.info("stats")["total_net_output_bytes"], client.info("commandstats")
    yield found
    found.sent = client.info("stats")["total_net_output_bytes"] - before
    after: dict[str, Any] = client.info("commandstats")
    found.commands = {
        name.removeprefix("cmdstat_"): stats["calls"] - calls.get(name, {"calls": 0})["calls"]
        for name, stats in after.items()
    }


def test_a_limit_sends_that_many_entries(q: Queues, client: redis.Redis) -> None:
    fill_events(client, q.key("events"), EVENTS)
    with traffic(client) as limited:
        rows = q.read("events", limit=2500).collect()
    assert [row.job_id for row in rows] == [f"j{n}" for n in range(2500)], "the oldest, in their order"
    with traffic(client) as whole:
        assert q.read("events").where("duration_us >= 0").count() == EVENTS
    assert limited.sent < whole.sent / 5
    assert limited.commands["xrange"] <= 4, "two pages, and what the plan samples"
    assert len(q.read("events", limit=EVENTS * 2).collect()) == EVENTS
    # It counts before a filter, whether Spark hands that over or not.
    assert q.read("events", limit=10).where("job_id = 'j11'").count() == 0


def test_counts_are_known_without_reading(q: Queues, client: redis.Redis) -> None:
    fill_events(client, q.key("events"), EVENTS)
    client.xadd(q.key("stream"), {"d": encode_envelope("j", b"\xc0", 1)})
    client.zadd(q.key("delayed"), {encode_delayed("n", encode_envelope("d", b"\xc0", 1)): 1000})
    with traffic(client) as found:
        rows = {row.entity: row.rows for row in q.read("counts").collect()}
    assert rows == {"events": EVENTS, "jobs": 1, "dead": 0, "delayed": 1, "repeatables": 0}
    assert found.sent < 20_000
    assert "xrange" not in {name for name, calls in found.commands.items() if calls}


@pytest.mark.parametrize("entity", ["events", "jobs", "delayed"])
def test_named_columns_are_the_only_ones(q: Queues, client: redis.Redis, entity: str) -> None:
    envelope = encode_envelope("j0", encode_payload(JSON), 1)
    client.xadd(q.key("stream"), {"d": envelope, "n": "send"})
    client.zadd(q.key("delayed"), {encode_delayed("send", envelope): 1000})
    fill_events(client, q.key("events"), 1)
    frame = q.read(entity, columns="name, job_id")
    assert frame.columns == ["name", "job_id"]
    (row,) = frame.collect()
    assert row.job_id == "j0"
    whole = q.read(entity).first()
    assert whole is not None
    assert whole.name == row.name


def test_columns_that_are_not_there_are_named(q: Queues) -> None:
    with pytest.raises(Exception, match="events has no column 'jobid'; it has queue, entry_id"):
        q.read("events", columns="jobid")
    with pytest.raises(Exception, match="columns must be names with commas between"):
        q.read("events", columns="job_id,,name")


def test_times_as_options_narrow_events_too(q: Queues, client: redis.Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for n in range(5000):
        pipe.xadd(q.key("events"), {"e": "active", "id": f"j{n}", "ts": n}, id=f"{1000 + n}-0")
        pipe.zadd(q.key("delayed"), {encode_delayed("send", encode_envelope(f"j{n}", b"\xc0", 1)): 1000.5 + n})
    pipe.execute()
    end = datetime.fromtimestamp(4.01, UTC).isoformat()
    with traffic(client) as narrow:
        for entity in ("events", "delayed"):
            rows = q.read(entity, startingTimestamp=4000, endingTimestamp=end).collect()
            assert {row.job_id for row in rows} == {f"j{n}" for n in range(3000, 3010)}, entity
    assert narrow.sent < 50_000
    with pytest.raises(Exception, match="startingTimestamp is for events, dead, jobs, delayed; results have no time"):
        q.read("results", startingTimestamp=4000)


def test_a_range_of_delayed_jobs_is_shared_among_tasks(q: Queues, client: redis.Redis) -> None:
    pipe = client.pipeline(transaction=False)
    for n in range(4000):
        pipe.zadd(q.key("delayed"), {encode_delayed("send", encode_envelope(f"j{n}", b"\xc0", 1)): 1000 + n})
    pipe.execute()
    frame = q.read("delayed", minPartitions=4, startingTimestamp=1001)
    assert frame.count() == 3999
    sizes = [row["count"] for row in frame.groupBy(F.spark_partition_id()).count().collect()]
    assert len(sizes) == 4
    assert max(sizes) <= 1000


def test_results_of_named_jobs_are_asked_for_by_name(q: Queues, client: redis.Redis) -> None:
    for n in range(300):
        client.set(q.key(f"result:j{n}"), encode_payload(n), ex=600)
    client.set(q.key("failure:j5"), b"\x93\xa3bad\xc0\x01", ex=600)
    with traffic(client) as named:
        rows = q.read("results").where("job_id in ('j5', 'j7', 'none')").collect()
    assert sorted((row.job_id, row.outcome) for row in rows) == [
        ("j5", "completed"),
        ("j5", "dead"),
        ("j7", "completed"),
    ]
    assert named.commands.get("scan", 0) == 0
    with traffic(client) as dead:
        assert [row.job_id for row in q.read("results").where("outcome = 'dead'").collect()] == ["j5"]
    assert dead.commands["get"] == 1, "completed jobs were passed over"


@pytest.mark.parametrize("pushed", [True, False])
def test_filters_on_names_ids_and_states_keep_what_matches(q: Queues, client: redis.Redis, pushed: bool) -> None:
    pipe = client.pipeline(transaction=False)
    for n in range(3000):
        name = {"n": f"name-{n % 3}"} if n % 4 else {}
        pipe.xadd(q.key("events"), {"e": "active" if n % 2 else "completed", "id": f"j{n}", "ts": n, **name})
    pipe.execute()
    q.spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushed).lower())
    try:
        events = q.read("events")
        assert events.where("event = 'active'").count() == 1500
        assert events.where("name in ('name-1', 'name-2') and event = 'completed'").count() == sum(
            bool(n % 4) and n % 3 > 0 and n % 2 == 0 for n in range(3000)
        )
        assert events.where("name is null").count() == 750
        assert events.where("not (event = 'active')").count() == 1500
        assert events.where("name = 'name-1' or job_id = 'j0'").count() == 1 + sum(
            bool(n % 4) and n % 3 == 1 for n in range(3000)
        )
        assert [row.job_id for row in events.where("job_id = 'j17'").collect()] == ["j17"]
        assert events.where("name = 'name-1' and name = 'name-2'").count() == 0
    finally:
        q.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_stream_takes_columns_too(q: Queues, tmp_path: Path) -> None:
    assert q.follow("events", columns="job_id").columns == ["job_id"]
    with pytest.raises(Exception, match=r"limit is an option of spark\.read and has no effect here"):
        run_to_end(q.follow("events", limit=5).writeStream.format("noop").option("checkpointLocation", str(tmp_path)))
