"""A worker that stops by itself: in a burst, after so many jobs, with too much memory."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, HandlerError, MissedFiresPolicy, Queue, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.memory import resident_mib
from tests.support.consumers import Recorder, add, pending
from tests.support.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from redis.asyncio import Redis

QUICK: dict[str, Any] = {"read_block_ms": 200, "shutdown_deadline_secs": 5}


async def run_burst(url: str, queue: str, handler: Any, **settings: Any) -> None:
    worker = Worker(queue, handler, redis_url=url, **{**QUICK, **settings})
    await asyncio.wait_for(worker.run(burst=True), PATIENCE_S)


async def test_a_burst_on_an_empty_queue_ends_at_once(redis_url: str, queue_name: str) -> None:
    seen = Recorder()
    await run_burst(redis_url, queue_name, seen)
    assert seen.jobs == []


async def test_a_burst_runs_all_that_waits_and_ends(redis_url: str, raw: Redis, queue_name: str) -> None:
    await add(redis_url, queue_name, *range(500))
    seen = Recorder()
    await run_burst(redis_url, queue_name, seen)
    assert sorted(seen.payloads) == list(range(500))
    assert await raw.xlen(QueueKeys(queue_name).stream) == 0


async def test_a_burst_waits_for_what_runs_and_runs_what_that_adds(redis_url: str, queue_name: str) -> None:
    seen = []
    async with Queue(queue_name, redis_url=redis_url) as queue:

        async def handle(job: Any) -> None:
            await asyncio.sleep(0.3)
            seen.append(job.data)
            if job.data < 2:
                await queue.add("next", job.data + 1)

        await queue.add("first", 0)
        await run_burst(redis_url, queue_name, handle)
    assert seen == [0, 1, 2]


async def test_a_burst_runs_what_is_due_and_leaves_what_is_not(redis_url: str, queue_name: str) -> None:
    seen = Recorder()
    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add("soon", "due", delay_ms=100)
        await queue.add("later", "not due", delay_ms=60_000)
        repeat = {"kind": "every", "interval_ms": 100}
        await queue.upsert_repeatable_job(
            "again", "fired", repeat=repeat, limit=1, missed_fires=MissedFiresPolicy.fire_once()
        )
        await asyncio.sleep(0.3)
        await run_burst(redis_url, queue_name, seen)
        assert "due" in seen.payloads
        assert "fired" in seen.payloads
        assert (await queue.counts()).delayed == 1


async def test_a_burst_runs_jobs_that_wait_for_their_priority(redis_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        for number in range(50):
            await queue.add("n", number, priority=number % 5 + 1)
        seen = Recorder()
        await run_burst(redis_url, queue_name, seen, concurrency=2)
        assert sorted(seen.payloads) == list(range(50))
        assert (await queue.counts()).delayed == 0


async def test_a_burst_leaves_retries_that_are_not_due(redis_url: str, queue_name: str) -> None:
    async def fail(job: Any) -> None:
        raise HandlerError("no")

    await add(redis_url, queue_name, 1)
    await run_burst(redis_url, queue_name, fail, backoff=60_000)
    async with Queue(queue_name, redis_url=redis_url) as queue:
        assert (await queue.counts()).delayed == 1


async def test_a_burst_ends_when_the_queue_is_paused(
    redis_url: str, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.pause()
        await queue.add("", 1)
        seen = Recorder()
        await run_burst(redis_url, queue_name, seen)
        assert seen.jobs == []
        assert (await queue.counts()).waiting == 1
    assert "is paused: the burst ends" in caplog.text


@pytest.mark.parametrize("most", [1, 7])
async def test_max_jobs_is_exact(redis_url: str, raw: Redis, queue_name: str, most: int) -> None:
    await add(redis_url, queue_name, *range(100))
    seen = Recorder()
    worker = Worker(queue_name, seen, redis_url=redis_url, max_jobs=most, **QUICK)
    await asyncio.wait_for(worker.run(), PATIENCE_S)
    assert len(seen.jobs) == most
    assert await raw.xlen(QueueKeys(queue_name).stream) == 100 - most
    assert await pending(raw, queue_name) == {}


async def test_jobs_that_run_end_before_it_stops_after_max_jobs(redis_url: str, queue_name: str) -> None:
    ended = []

    async def handle(job: Any) -> None:
        await asyncio.sleep(0.3)
        ended.append(job.data)

    await add(redis_url, queue_name, *range(20))
    worker = Worker(queue_name, handle, redis_url=redis_url, max_jobs=10, **QUICK)
    await asyncio.wait_for(worker.run(), PATIENCE_S)
    assert len(ended) == 10


async def test_it_stops_when_it_takes_too_much_memory(
    redis_url: str, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    leak: list[bytearray] = []

    async def handle(job: Any) -> None:
        leak.append(bytearray(b"x" * (64 * 1024 * 1024)))

    worker = Worker(queue_name, handle, redis_url=redis_url, max_rss_mb=int(resident_mib()) + 32, **QUICK)
    run = asyncio.create_task(worker.run())
    await worker.wait_until_ready()
    await add(redis_url, queue_name, 1)
    with caplog.at_level(logging.WARNING, "chasqui"):
        await asyncio.wait_for(run, PATIENCE_S)
    assert "max_rss_mb is" in caplog.text
    assert len(leak) == 1


async def test_a_memory_limit_below_what_it_takes_already_is_refused(redis_url: str, queue_name: str) -> None:
    with pytest.raises(ConfigError, match=r"max_rss_mb is 1, but the process takes .* before its first job"):
        await Worker(queue_name, Recorder(), redis_url=redis_url, max_rss_mb=1).run()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "10", True])
@pytest.mark.parametrize("limit", ["max_jobs", "max_rss_mb"])
def test_a_wrong_limit_is_refused(limit: str, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=limit):
        Worker("q", Recorder(), **{limit: wrong})


async def test_close_ends_a_burst(redis_url: str, queue_name: str) -> None:
    async def handle(job: Any) -> None:
        await asyncio.sleep(0.5)

    await add(redis_url, queue_name, *range(10))
    worker = Worker(queue_name, handle, redis_url=redis_url, concurrency=1, **QUICK)
    run = asyncio.create_task(worker.run(burst=True))
    async with Queue(queue_name, redis_url=redis_url) as queue:

        async def one_runs() -> bool:
            return (await queue.counts()).active > 0

        await until(one_runs)
        await worker.close()
        await asyncio.wait_for(run, PATIENCE_S)
        assert (await queue.counts()).waiting >= 8
