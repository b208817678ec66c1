"""A server clock that steps forward ages every entry at once: the jobs of living workers stay theirs."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.consumers import add, consuming, pending
from tests.support.queues import stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

HOUR_MS = 3_600_000
LEAST_MS = 900


async def test_running_jobs_stay_with_their_workers(redis_url: str, raw: Redis, queue_name: str) -> None:
    runs: Counter[int] = Counter()

    async def handler(job: Job) -> None:
        runs[job.payload] += 1
        await asyncio.sleep(4)

    settings = {"claim_min_idle_ms": LEAST_MS, "concurrency": 20}
    async with (
        consuming(redis_url, queue_name, handler, **settings),
        consuming(redis_url, queue_name, handler, **settings),
    ):
        await add(redis_url, queue_name, *range(30))
        await until(lambda: len(runs) == 30)
        for _ in range(4):
            await _age(raw, queue_name)
            await asyncio.sleep(0.8)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert runs.total() == 30


async def _age(raw: Redis, queue: str) -> None:
    """Does to the entries what a step of the clock does."""
    stream = QueueKeys(queue).stream
    for entry_id, consumer in (await pending(raw, queue)).items():
        await raw.xclaim(stream, "default", consumer, 0, [entry_id], idle=HOUR_MS, justid=True)
