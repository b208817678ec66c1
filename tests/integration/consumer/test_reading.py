"""Taking jobs: in order, fairly, and no more than can be used soon."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from chasqui_engine.metrics import InMemorySink, ReaderBatch
from chasqui_engine.runtime.clock import monotonic
from tests.support.consumers import Gate, Recorder, add, consuming, pending
from tests.support.queues import stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


async def test_jobs_start_in_the_order_they_were_added(redis_url: str, queue_name: str) -> None:
    await add(redis_url, queue_name, *range(500))
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, concurrency=1):
        await until(lambda: len(seen.jobs) == 500)
    assert seen.payloads == list(range(500))


async def test_a_job_starts_as_soon_as_it_is_added(redis_url: str, queue_name: str) -> None:
    """The read is waiting in the server; nothing polls."""
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, block_ms=30_000):
        await add(redis_url, queue_name, "warm up")
        await until(lambda: seen.jobs)
        delays_s = []
        for turn in range(5):
            await add(redis_url, queue_name, turn)
            began = monotonic()
            await until(lambda: len(seen.jobs) == turn + 2, every_s=0.001)  # noqa: B023
            delays_s.append(monotonic() - began)
    assert min(delays_s) < 0.1


async def test_a_read_takes_no_more_than_a_batch(redis_url: str, raw: Redis, queue_name: str) -> None:
    sink = InMemorySink()
    await add(redis_url, queue_name, *range(100))
    async with consuming(redis_url, queue_name, Recorder(), batch=7, metrics=sink):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sum(batch.size for batch in sink.events(ReaderBatch)) == 100
    assert max(batch.size for batch in sink.events(ReaderBatch)) == 7


async def test_a_busy_worker_leaves_the_rest_to_others(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Slow jobs: what it holds beyond those it runs stays small, however many wait."""
    gate = Gate()
    async with consuming(redis_url, queue_name, gate, concurrency=4):
        await add(redis_url, queue_name, *range(500))
        await until(lambda: len(gate.started) == 4)
        await asyncio.sleep(0.2)
        assert len(await pending(raw, queue_name)) <= 4 + 64
        others = Recorder()
        async with consuming(redis_url, queue_name, others):
            await until(lambda: len(others.jobs) >= 400)
        gate.open()
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sorted(gate.started + others.payloads) == list(range(500))


async def test_two_workers_share_and_run_each_job_once(redis_url: str, raw: Redis, queue_name: str) -> None:
    ran: list[tuple[str, int]] = []

    def by(worker: str) -> Any:
        async def handler(job: Job) -> None:
            ran.append((worker, job.payload))
            await asyncio.sleep(0.001)

        return handler

    async with (
        consuming(redis_url, queue_name, by("a"), concurrency=5),
        consuming(redis_url, queue_name, by("b"), concurrency=5),
    ):
        await add(redis_url, queue_name, *range(1000))
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sorted(payload for _, payload in ran) == list(range(1000))
    assert min(Counter(worker for worker, _ in ran).values()) > 100


async def test_it_survives_broken_connections(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Every connection of the worker is cut, again and again, while jobs run: none is lost."""
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=500):
        for turn in range(4):
            await add(redis_url, queue_name, *range(turn * 50, turn * 50 + 50))
            for client in await raw.client_list():
                if client["name"] == f"chasqui-worker:{queue_name}":
                    await raw.client_kill_filter(_id=client["id"])
        await until(lambda: stream_is_empty(raw, queue_name))
    assert set(seen.payloads) == set(range(200))
