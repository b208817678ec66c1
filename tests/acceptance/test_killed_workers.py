"""`kill -9` of workers in the middle of their jobs."""

from __future__ import annotations

import asyncio
import random
import signal
from typing import TYPE_CHECKING

from chasqui_engine import Queue
from tests.acceptance.harness import EMPTY, Fleet, Ledger, left_over
from tests.integration.helpers import until

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis

CONCURRENCY = 20


async def add_numbered(url: str, queue: str, count: int) -> None:
    async with Queue(queue, redis_url=url) as producer:
        for start in range(0, count, 1000):
            await producer.add_bulk([{"name": "n", "data": n} for n in range(start, min(start + 1000, count))])


async def test_every_job_runs_though_workers_are_killed_again_and_again(
    redis_url: str, raw: Redis, queue_name: str, tmp_path: Path
) -> None:
    jobs, kills = 5000, 6
    await add_numbered(redis_url, queue_name, jobs)
    ledger = Ledger(tmp_path / "ledger")
    settings = {"work_ms": 5, "concurrency": CONCURRENCY, "claim_min_idle_ms": 800, "max_attempts": 50}
    with Fleet(redis_url, queue_name, ledger, **settings) as fleet:
        fleet.start()
        for _ in range(kills):
            victim = fleet.start()
            begun = len(ledger.starts())
            await until(lambda begun=begun: len(ledger.starts()) > min(begun + 50, jobs - 1))
            await asyncio.sleep(random.uniform(0, 0.2))
            fleet.kill(victim)
        await until(lambda: len(ledger.ends()) == jobs, timeout_s=40)
        await until(lambda: _is_empty(raw, queue_name))
    again = sum(ledger.starts().values()) - jobs
    print(f"{jobs} jobs, {kills} kills: 0 lost, {again} begun again")
    assert again <= kills * CONCURRENCY


async def _is_empty(raw: Redis, queue: str) -> bool:
    return await left_over(raw, queue) == EMPTY


async def test_a_worker_that_is_told_to_stop_starts_nothing_more_and_leaves_the_rest_to_others(
    redis_url: str, raw: Redis, queue_name: str, tmp_path: Path
) -> None:
    jobs = 200
    await add_numbered(redis_url, queue_name, jobs)
    ledger = Ledger(tmp_path / "ledger")
    settings = {"work_ms": 1500, "concurrency": CONCURRENCY, "shutdown_deadline_secs": 0.5, "claim_min_idle_ms": 60_000}
    with Fleet(redis_url, queue_name, ledger, **settings) as fleet:
        worker = fleet.start()
        await until(lambda: len(ledger.starts()) == CONCURRENCY)
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.wait, 8)
        assert worker.returncode == 0
        assert len(ledger.starts()) == CONCURRENCY
        assert await left_over(raw, queue_name) == {**EMPTY, "stream": jobs}
        # Nothing is in the dead worker's name: another has all of it at once, long before anything counts as idle.
        fleet.start(work_ms=0, concurrency=100)
        await until(lambda: len(ledger.ends()) == jobs, timeout_s=20)
