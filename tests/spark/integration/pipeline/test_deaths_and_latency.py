"""Deaths stay counted whatever becomes of the job later, and latency is known for every job: a real queue, whose
events a plain pass follows too."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from chasqui_engine import Job, Queue, UnrecoverableError, Worker
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.redrive import redrive
from chasqui_engine.pipeline.run import Pipeline
from tests.spark.integration.pipeline.checks import check_gold, check_silver, silver_rows
from tests.spark.integration.pipeline.pipelines import COLUMNS, WINDOW_S
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.spark.integration.conftest import Queues

JOBS = 6
NUMBERS = {"attempt", "duration_us", "backoff_ms", "delay_ms", "enqueued_at", "ts"}


async def _die(job: Job) -> None:
    if job.payload["dies"]:
        raise UnrecoverableError("no such order")


@asynccontextmanager
async def worked_on(q: Queues) -> AsyncIterator[Queue]:
    async with Queue(q.queue, redis_url=q.url) as queue, working(Worker(q.queue, _die, redis_url=q.url)):
        yield queue


def events_in(client: redis.Redis, q: Queues) -> list[dict[str, Any]]:
    """As a plain pass takes them."""
    names = {"e": "event", "id": "job_id", "n": "name", "enqueued_at_ms": "enqueued_at"}
    found = []
    for entry_id, fields in client.xrange(q.key("events")):
        event: dict[str, Any] = dict.fromkeys(COLUMNS) | {"entry_id": entry_id.decode()}
        for key, value in fields.items():
            name = names.get(key.decode(), key.decode())
            event[name] = int(value) if name in NUMBERS else value.decode()
        found.append(event)
    return found


async def test_every_death_counts_over_replays_redrives_and_clears(
    q: Queues, client: redis.Redis, tmp_path: Path
) -> None:
    slo = tmp_path / "slo.yaml"
    promises = {"queue": q.queue, "dead_rate": 0.1, "latency_p95_ms": 600_000, "min_finished": 2}
    slo.write_text(json.dumps({"slos": [promises]}))
    config = PipelineConfig(
        queues=(q.queue,), out=f"file://{tmp_path}/out", url=q.url, window_s=WINDOW_S, slo_file=str(slo)
    )
    work = Pipeline(q.spark, config)
    async with worked_on(q) as queue:
        await queue.add_bulk([{"name": "send", "data": {"dies": n % 2}, "job_id": f"order-{n}"} for n in range(JOBS)])
        await until(lambda: _are(queue, dead=JOBS // 2, waiting=0))
    work.run()

    async with worked_on(q) as queue:
        assert await queue.replay_dlq(limit=2) == 2
        await until(lambda: _are(queue, dead=JOBS // 2, waiting=0))
    done = redrive(q.spark, q.queue, where="job_id = 'order-1'", repair=lambda _: {"dies": 0}, options={"url": q.url})
    assert done.redriven == 1
    async with worked_on(q) as queue:
        await until(lambda: _are(queue, dead=JOBS // 2, waiting=0))
        client.delete(q.key("dlq"))  # as a purge does
        await queue.add("send", {"dies": 0}, job_id="order-3")
        await until(lambda: _are(queue, dead=0, waiting=0))
    summary = work.run()

    events = events_in(client, q)
    check_gold(work, check_silver(work, events))
    kinds = Counter(event["event"] for event in events)
    assert kinds["dlq"] == JOBS // 2 + 2
    assert summary is not None
    totals = summary["queues"][q.queue]["totals"]
    assert (totals["dead"], totals["completed"]) == (kinds["dlq"], kinds["completed"])
    assert totals["success_rate"] == kinds["completed"] / (kinds["completed"] + kinds["dlq"])
    assert totals["arrived"] == totals["departed"] == kinds["dlq"] + kinds["completed"]
    verdicts = {slo["metric"]: slo["verdict"] for slo in summary["slos"]}
    assert verdicts == {"dead_rate": "broken", "latency_p95_ms": "kept"}
    assert all(row["queue_latency_ms"] is not None for row in silver_rows(work).values())


async def _are(queue: Queue, **wanted: int) -> bool:
    counts = await queue.counts()
    return all(getattr(counts, name) == count for name, count in wanted.items())
