"""Connections that the server ends, servers that die and come back, and scripts that it forgets: work goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import (
    JobFailedError,
    Promoter,
    PromoterConfig,
    Queue,
    QueueEvents,
    RepeatPattern,
    Scheduler,
    SchedulerConfig,
    UnrecoverableError,
)
from chasqui_engine.runtime.clock import monotonic
from tests.servers import ServerProcess
from tests.support.ledger import FAST, Ledger, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chasqui_engine import Job

KILLS = 10


@contextlib.asynccontextmanager
async def duties(queue_name: str, url: str) -> AsyncIterator[None]:
    """Promoter and scheduler as services of their own."""
    stop = asyncio.Event()
    services = [
        Promoter(url, queue_name, PromoterConfig(poll_interval_ms=20)).run(stop),
        Scheduler(url, queue_name, SchedulerConfig(tick_interval_ms=50)).run(stop),
    ]
    running = [asyncio.create_task(service) for service in services]
    try:
        yield
        assert not any(task.done() for task in running), "a service ended by itself"
    finally:
        stop.set()
        await asyncio.gather(*running)


class Watch:
    """Follows a queue's events and counts how often each job was said to be completed."""

    def __init__(self, queue_name: str, url: str) -> None:
        self.completed: Counter[str | None] = Counter()
        self._events = QueueEvents(queue_name, redis_url=url, last_event_id="0", block_ms=200)
        self._following = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        async for event in self._events:
            if event.name == "completed":
                self.completed[event.job_id] += 1

    async def aclose(self) -> None:
        await self._events.close()
        await self._following


async def kill_all(admin: Redis, queue_name: str) -> set[str]:
    """Ends every connection of the queue; returns the names they had."""
    ours = [client for client in await admin.client_list() if client["name"].endswith(queue_name)]
    for client in ours:
        await admin.execute_command("CLIENT", "KILL", "ID", client["id"])
    return {client["name"].partition(":")[0] for client in ours}


async def test_connections_killed_ten_times_under_load(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Producers, workers with their heartbeat, promoter, scheduler and subscribers, all at once."""
    ledger, killed = Ledger(), set[str]()
    adding = {"done": 0}

    async def add(queue: Queue) -> None:
        while adding["done"] < 600:
            n = adding["done"]
            adding["done"] += 2
            await queue.add("now", n, job_id=f"id-{n}")
            await queue.add("soon", n + 1, job_id=f"id-{n + 1}", delay_ms=30)

    options: dict[str, Any] = {"delayed_enabled": False, "run_scheduler": False, "store_results": True}
    async with (
        Queue(queue_name, redis_url=redis_url) as queue,
        duties(queue_name, redis_url),
        working(queue_name, redis_url, ledger, **options),
        working(queue_name, redis_url, ledger, **options),
        contextlib.aclosing(Watch(queue_name, redis_url)) as watch,
    ):
        await queue.upsert_repeatable_job("tick", "tick", repeat=RepeatPattern.every(100))
        first = await queue.add("now", "first")
        assert await first.wait_for_result(timeout=10) == "first"
        producers = [asyncio.create_task(add(queue)) for _ in range(3)]
        for _ in range(KILLS):
            killed |= await kill_all(raw, queue_name)
            await asyncio.sleep(0.08)
        await asyncio.gather(*producers)
        await until(lambda: set(range(600)) <= set(ledger.runs), timeout_s=15)
        ticks = ledger.runs["tick"]
        await until(lambda: ledger.runs["tick"] > ticks + 2)
        await until(lambda: all(watch.completed[f"id-{n}"] for n in range(600)))
        assert await (await queue.add("now", "last")).wait_for_result(timeout=10) == "last"
    assert {"chasqui-producer", "chasqui-worker", "chasqui-promoter", "chasqui-scheduler", "chasqui-events"} <= killed
    assert [n for n in range(600) if ledger.runs[n] != 1] == []
    assert [n for n in range(600) if watch.completed[f"id-{n}"] != 1] == []


async def test_a_job_that_runs_while_its_connections_die_is_not_run_again(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    """The heartbeat comes back in time to keep what a worker holds."""
    runs, finish = Counter[Any](), asyncio.Event()

    class Held(Ledger):
        async def handle(self, job: Job) -> Any:
            runs[job.data] += 1
            await finish.wait()
            self.runs[job.data] += 1

    async with (
        working(queue_name, redis_url, Held()) as ledger,
        working(queue_name, redis_url, Held()) as other,
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        for n in range(4):
            await queue.add("n", n)
        await until(lambda: len(runs) == 4)
        started = monotonic()
        while monotonic() - started < 2 * FAST["claim_min_idle_ms"] / 1000:
            await kill_all(raw, queue_name)
            await asyncio.sleep(0.25)
        finish.set()
        await until(lambda: len(ledger.runs) + len(other.runs) == 4)
    assert runs == dict.fromkeys(range(4), 1)


async def test_a_server_that_was_killed_and_is_back_after_two_seconds(queue_name: str) -> None:
    with ServerProcess(extra_args=("--appendonly", "yes", "--appendfsync", "always")) as server:
        async with (
            working(queue_name, server.url, store_results=True) as ledger,
            Queue(queue_name, redis_url=server.url, connection_patience=30) as queue,
            contextlib.aclosing(Watch(queue_name, server.url)) as watch,
        ):
            for n in range(100):
                await queue.add("n", n, job_id=f"id-{n}")
            await queue.add("later", "delayed", delay_ms=1000)
            waited = await queue.add("later", "waited for", job_id="waited", delay_ms=2500)
            waiting = asyncio.create_task(waited.wait_for_result(timeout=30))
            await until(ledger.has(1))
            server.kill()
            down = asyncio.create_task(asyncio.sleep(2))
            during = asyncio.create_task(queue.add("n", "during", job_id="during"))
            await down
            server.start()
            returned_at = monotonic()
            await until(ledger.has(102))
            back_after_s = monotonic() - returned_at
            await during
            assert await waiting == "waited for"
            await until(ledger.has(103))
            await until(lambda: watch.completed["waited"] > 0)
    assert back_after_s < 2
    assert set(ledger.runs) == {*range(100), "delayed", "during", "waited for"}


async def test_a_server_that_forgets_its_scripts_all_the_time(redis_url: str, raw: Redis, queue_name: str) -> None:
    """SCRIPT FLUSH in mid-run, with ids, delays, retries, burials, cancels, results and a repeatable."""
    failures = Counter[Any]()

    class Failing(Ledger):
        async def handle(self, job: Job) -> Any:
            failures[job.data] += 1
            if job.name == "retry" and failures[job.data] < 2:
                raise ValueError("not yet")
            if job.name == "bury":
                raise UnrecoverableError("never")
            return await super().handle(job)

    async def flush() -> None:
        while True:
            await raw.script_flush()
            await asyncio.sleep(0.002)

    async with (
        working(queue_name, redis_url, Failing(), store_results=True) as ledger,
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        flushing = asyncio.create_task(flush())
        await queue.upsert_repeatable_job("tick", "tick", repeat=RepeatPattern.every(50))
        cancelled = [await queue.add("later", f"c{n}", job_id=f"c{n}", delay_ms=60_000) for n in range(20)]
        dead = []
        for n in range(30):
            await queue.add("now", n, job_id=f"id-{n}")
            await queue.add("soon", 100 + n, delay_ms=10)
            await queue.add("retry", 200 + n, backoff=5)
            dead.append(await queue.add("bury", 300 + n))
        assert all([await queue.cancel_delayed(job.id) for job in cancelled])
        wanted = {*range(30), *range(100, 130), *range(200, 230), "tick"}
        await until(lambda: wanted <= set(ledger.runs))
        assert await (await queue.add("now", "last")).wait_for_result(timeout=10) == "last"
        buried = [await _wait_until_dead(job) for job in dead]
        assert len(buried) == await queue.replay_dlq() == 30
        flushing.cancel()
    assert all(ledger.runs[n] == 1 for n in wanted - {"tick"})


async def _wait_until_dead(job: Job) -> str:
    with pytest.raises(JobFailedError) as caught:
        await job.wait_for_result(timeout=10)
    return caught.value.reason
