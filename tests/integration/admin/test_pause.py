"""A paused queue: workers leave it alone, soon and also from within a read that waits; what runs, runs on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chasqui_engine import Consumer, ConsumerConfig, Queue, SyncQueue
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import monotonic
from tests.support.queues import running, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from redis.asyncio import Redis

    from chasqui_engine import Job

NOTICED_S = 0.25
"""How soon a worker should see a pause; waited for with room to spare, since the machine may be busy."""


def consuming(
    redis_url: str, queue_name: str, handler: Any, **options: Any
) -> AbstractAsyncContextManager[asyncio.Event]:
    settings = {"block_ms": 30_000, "run_scheduler": False, **options}
    config = ConsumerConfig(queue_name=queue_name, **settings)
    return running(lambda shutdown: Consumer(redis_url, config).run(handler, shutdown))


async def reads_that_wait(raw: Redis, queue_name: str) -> int:
    clients = await raw.client_list()
    return sum(1 for c in clients if c["name"] == f"chasqui-worker:{queue_name}" and c["cmd"] == "xreadgroup")


async def test_pausing_and_resuming_say_whether_they_changed_anything(
    queue: Queue, raw: Redis, queue_name: str
) -> None:
    assert not await queue.is_paused()
    assert [await queue.pause(), await queue.pause()] == [True, False]
    assert await queue.is_paused()
    key = QueueKeys(queue_name).paused
    assert key == f"{{chasqui:{queue_name}}}:paused"
    assert await raw.ttl(key) == -1
    assert [await queue.resume(), await queue.resume()] == [True, False]
    assert not await queue.is_paused()
    assert await raw.exists(key) == 0


def test_it_blocks_too(redis_url: str, queue_name: str) -> None:
    with SyncQueue(queue_name, redis_url=redis_url) as queue:
        assert queue.pause()
        assert queue.is_paused()
        assert queue.counts().paused
        assert queue.resume()
        assert queue.get_job("nobody").state == "unknown"


async def test_a_worker_that_waits_for_jobs_notices(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    ran: list[int] = []

    async def handler(job: Job) -> None:
        ran.append(job.data)

    async with consuming(redis_url, queue_name, handler):
        await queue.add("n", 0)
        await until(lambda: ran == [0])
        await until(lambda: reads_that_wait(raw, queue_name))
        await queue.pause()
        await until(lambda: _none_waits(raw, queue_name))
        await queue.add_bulk([{"name": "n", "data": n} for n in (1, 2, 3)])
        await asyncio.sleep(3 * NOTICED_S)
        assert ran == [0]
        assert (await queue.counts()).waiting == 3
        await queue.resume()
        resumed = monotonic()
        await until(lambda: len(ran) == 4)
        assert monotonic() - resumed < 10 * NOTICED_S
    assert sorted(ran) == [0, 1, 2, 3]


async def _none_waits(raw: Redis, queue_name: str) -> bool:
    return not await reads_that_wait(raw, queue_name)


async def test_a_worker_that_starts_on_a_paused_queue_waits(
    queue: Queue, redis_url: str, raw: Redis, queue_name: str
) -> None:
    ran: list[int] = []

    async def handler(job: Job) -> None:
        ran.append(job.data)

    await queue.pause()
    await queue.add("n", 1)
    async with consuming(redis_url, queue_name, handler):
        await asyncio.sleep(2 * NOTICED_S)
        assert ran == []
        await queue.resume()
        await until(lambda: ran == [1])
    assert await stream_is_empty(raw, queue_name)


async def test_what_runs_runs_on_and_the_rest_goes_back(
    queue: Queue, redis_url: str, raw: Redis, queue_name: str
) -> None:
    """Ten jobs are in this worker's hands; the two that have begun end, the others are for whoever comes."""
    begun: list[int] = []
    ended: list[int] = []
    go_on = asyncio.Event()

    async def handler(job: Job) -> None:
        begun.append(job.data)
        await go_on.wait()
        ended.append(job.data)

    await queue.add_bulk([{"name": "n", "data": n} for n in range(10)])
    async with consuming(redis_url, queue_name, handler, concurrency=2):
        await until(lambda: len(begun) == 2)
        await queue.pause()

        async def only_those_that_run() -> bool:
            counts = await queue.counts()
            return (counts.waiting, counts.active) == (8, 2)

        await until(only_those_that_run)
        go_on.set()
        await until(lambda: len(ended) == 2)

        async def none_left() -> bool:
            return (await queue.counts()).active == 0

        await until(none_left)
        await asyncio.sleep(2 * NOTICED_S)
        assert len(begun) == 2
        await queue.resume()
        await until(lambda: len(ended) == 10)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sorted(begun) == list(range(10))


async def test_nothing_is_lost_or_run_twice_over_many_pauses(
    queue: Queue, redis_url: str, raw: Redis, queue_name: str
) -> None:
    ran: list[int] = []

    async def handler(job: Job) -> None:
        ran.append(job.data)
        await asyncio.sleep(0.001)

    total = 3000
    async with consuming(redis_url, queue_name, handler, concurrency=4, claim_min_idle_ms=60_000):
        for part in range(5):
            chunk = range(part * total // 5, (part + 1) * total // 5)
            await queue.add_bulk([{"name": "n", "data": n} for n in chunk])
            await asyncio.sleep(0.1)
            await queue.pause()
            await asyncio.sleep(0.25)
            await queue.resume()
        await until(lambda: len(ran) >= total, timeout_s=30)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sorted(ran) == list(range(total))


async def test_stopping_a_worker_of_a_paused_queue(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        raise AssertionError("the queue is paused")

    await queue.pause()
    await queue.add("n", 1)
    async with consuming(redis_url, queue_name, handler):
        await until(lambda: raw.exists(QueueKeys(queue_name).stream))
        await asyncio.sleep(NOTICED_S)
    assert (await queue.counts()).waiting == 1
    assert await raw.xinfo_consumers(QueueKeys(queue_name).stream, "default") == []
