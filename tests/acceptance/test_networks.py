"""Networks that cut, go half open, silent and slow: every part of the engine comes back, and nothing is added twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import redis.asyncio

from chasqui_engine import Job, MissedFiresPolicy, Queue, QueueEvents, RedisError, RepeatPattern, Worker
from tests.servers import ServerProcess
from tests.support.connections.proxy import Proxy
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

PATIENCE_S = 30.0


class Everything:
    """A worker with promoter, scheduler and heartbeat, a subscriber and a producer, all through one proxy."""

    def __init__(self, queue: Queue, proxy: Proxy, server_url: str) -> None:
        self.queue = queue
        self.proxy = proxy
        self.server_url = server_url
        self.runs: Counter[str] = Counter()
        self.ticks = 0
        self.heard: Counter[str] = Counter()
        self.added = 0

    async def handle(self, job: Job) -> None:
        if job.name == "tick":
            self.ticks += 1
        else:
            self.runs[job.id] += 1

    async def listen(self, events: QueueEvents) -> None:
        async for event in events:
            if event.name == "completed" and event.job_id:
                self.heard[event.job_id] += 1

    async def add(self, delay_ms: int | None) -> str:
        """One more job under an id of its own, sent until the server has confirmed it."""
        self.added += 1
        job_id = f"job-{self.added}"
        while True:
            try:
                await self.queue.add("n", 1, job_id=job_id, delay_ms=delay_ms)
                return job_id
            except RedisError:
                await asyncio.sleep(0.05)

    async def check_all_parts(self) -> None:
        """Each has to do something new: reads, acks, promotions, fires and events."""
        ticks = self.ticks
        ids = {await self.add(None), await self.add(50)}
        await until(lambda: ids <= self.runs.keys(), timeout_s=PATIENCE_S)
        await until(lambda: ids <= self.heard.keys(), timeout_s=PATIENCE_S)
        await until(lambda: self.ticks > ticks, timeout_s=PATIENCE_S)

    async def tell_server(self, *command: str) -> None:
        async with redis.asyncio.Redis.from_url(self.server_url) as admin:
            await admin.execute_command(*command)


@asynccontextmanager
async def everything(url: str, queue_name: str) -> AsyncIterator[Everything]:
    async with Proxy(url) as proxy, Queue(queue_name, redis_url=proxy.url) as queue:
        all_of_it = Everything(queue, proxy, url)
        settings = {"read_block_ms": 300, "claim_min_idle_ms": 3000, "scheduler_tick_ms": 50}
        worker = Worker(queue_name, all_of_it.handle, redis_url=proxy.url, **settings)  # type: ignore[arg-type]
        async with working(worker), QueueEvents(queue_name, redis_url=proxy.url, block_ms=300) as events:
            listening = asyncio.create_task(all_of_it.listen(events))
            # Late fires count: with answers that take long, one of so short an interval is never on time.
            policy = MissedFiresPolicy.fire_once()
            await queue.upsert_repeatable_job("tick", None, repeat=RepeatPattern.every(500), missed_fires=policy)
            try:
                await all_of_it.check_all_parts()
                yield all_of_it
            finally:
                proxy.flow()
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)


async def cut_often(all_of_it: Everything) -> None:
    for _ in range(10):
        all_of_it.proxy.cut()
        await all_of_it.add(None)


async def half_open(all_of_it: Everything) -> None:
    """Questions arrive, answers do not; then the connections are gone."""
    all_of_it.proxy.hold_replies()
    adding = asyncio.create_task(all_of_it.add(None))
    await asyncio.sleep(0.5)
    all_of_it.proxy.cut()
    await adding


async def silent(all_of_it: Everything) -> None:
    all_of_it.proxy.stall()
    await asyncio.sleep(1)
    all_of_it.proxy.flow()


async def slow(all_of_it: Everything) -> None:
    all_of_it.proxy.delay_s = 0.05
    await all_of_it.check_all_parts()
    all_of_it.proxy.delay_s = 0.0


async def killed_by_the_server(all_of_it: Everything) -> None:
    for _ in range(10):
        await all_of_it.tell_server("CLIENT", "KILL", "TYPE", "normal")
        await all_of_it.add(None)


async def scripts_forgotten(all_of_it: Everything) -> None:
    for _ in range(10):
        await all_of_it.tell_server("SCRIPT", "FLUSH")
        await all_of_it.add(20)


FAULTS: dict[str, Callable[[Everything], Awaitable[None]]] = {
    "cut x 10": cut_often,
    "half open": half_open,
    "silent": silent,
    "slow": slow,
}
ON_THE_SERVER: dict[str, Callable[[Everything], Awaitable[None]]] = {
    "CLIENT KILL x 10": killed_by_the_server,
    "SCRIPT FLUSH x 10": scripts_forgotten,
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_all_parts_come_back_and_ids_keep_jobs_single(redis_url: str, queue_name: str, fault: str) -> None:
    await check(redis_url, queue_name, FAULTS[fault])


@pytest.mark.parametrize("fault", ON_THE_SERVER)
async def test_all_parts_come_back_from_what_the_server_does(server_kind: str, queue_name: str, fault: str) -> None:
    """On a server of its own: what it does, it does to all of its clients."""
    if server_kind == "given":
        pytest.skip("breaks its server, so it needs one of its own")
    with ServerProcess(server_kind) as server:
        await check(server.url, queue_name, ON_THE_SERVER[fault])


async def check(url: str, queue_name: str, fault: Callable[[Everything], Awaitable[None]]) -> None:
    async with everything(url, queue_name) as all_of_it:
        await fault(all_of_it)
        await all_of_it.check_all_parts()
        await until(lambda: len(all_of_it.runs) == all_of_it.added, timeout_s=PATIENCE_S)
    again = {job_id: count for job_id, count in all_of_it.runs.items() if count > 1}
    print(f"{all_of_it.added} jobs: 0 lost, {len(again)} run again, {all_of_it.ticks} fires")
    assert again == {}
