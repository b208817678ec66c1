"""Batches under faults: what a batch holds is no more lost, and no more run again, than single jobs are."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import BatchError, Job, Queue, Worker
from tests.servers import ServerProcess
from tests.support.connections.proxy import Proxy
from tests.support.faults.fleet import Ledger
from tests.support.faults.kills import CONCURRENCY, kill_again_and_again
from tests.support.faults.outages import ALWAYS, PATIENCE_S, add_accepted
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from redis.asyncio import Redis

JOBS = 1000
BATCH = 50


class PartlyFailing:
    """A batch handler: of every ten jobs the first fails in its first run."""

    def __init__(self) -> None:
        self.good: Counter[int] = Counter()
        self.failed: Counter[int] = Counter()
        self.largest = 0

    async def __call__(self, jobs: list[Job]) -> None:
        await asyncio.sleep(0.02)
        self.largest = max(self.largest, len(jobs))
        bad: dict[str, BaseException] = {}
        for job in jobs:
            if job.payload % 10 == 0 and job.attempt == 0:
                bad[job.id] = ValueError("as told")
            (self.failed if job.id in bad else self.good)[job.payload] += 1
        raise BatchError(bad)

    def __str__(self) -> str:
        again = self.good.total() - len(self.good) + self.failed.total() - len(self.failed)
        return f"{len(self.good)} jobs in batches of up to {self.largest}: {again} run again"


@pytest.fixture
def server(server_kind: str) -> Iterator[ServerProcess]:
    if server_kind == "given":
        pytest.skip("breaks its server, so it needs one of its own")
    with ServerProcess(server_kind, ALWAYS) as server:
        yield server


def batch_worker(url: str, queue: str, handler: PartlyFailing) -> Worker:
    settings: dict[str, Any] = {"claim_min_idle_ms": 1000, "read_block_ms": 500, "backoff": 5, "max_attempts": 50}
    return Worker(queue, handler, redis_url=url, batch_size=BATCH, batch_wait_ms=20, **settings)


async def check_balance(queue: Queue, handler: PartlyFailing) -> None:
    """Every job has run well, every one that should fail has failed before, and nothing is left."""
    await until(lambda: len(handler.good) == JOBS, timeout_s=PATIENCE_S)

    async def is_empty() -> bool:
        counts = await queue.counts()
        return counts.waiting + counts.active + counts.delayed == 0

    await until(is_empty, timeout_s=PATIENCE_S)
    print(handler)
    assert (await queue.counts()).dead == 0
    assert handler.failed.keys() == set(range(0, JOBS, 10))
    assert handler.largest > 1


@pytest.mark.timeout(180)
async def test_a_killed_worker_leaves_its_batch_to_others(
    redis_url: str, raw: Redis, queue_name: str, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    settings = {"work_ms": 50, "batch_size": CONCURRENCY, "batch_wait_ms": 20}
    killed = await kill_again_and_again(redis_url, raw, queue_name, ledger, jobs=2000, kills=6, **settings)
    print(killed)
    assert killed.running <= killed.in_hand <= killed.kills * CONCURRENCY
    assert killed.ended <= killed.kills * CONCURRENCY


@pytest.mark.timeout(180)
async def test_nothing_is_lost_when_the_server_is_killed_and_comes_back(server: ServerProcess, queue_name: str) -> None:
    handler = PartlyFailing()
    async with Queue(queue_name, redis_url=server.url) as queue, working(batch_worker(server.url, queue_name, handler)):
        adding = asyncio.create_task(add_accepted(queue, range(JOBS)))
        await until(lambda: len(handler.good) > JOBS // 5, timeout_s=PATIENCE_S)
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(1)
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(adding, PATIENCE_S)
        await check_balance(queue, handler)
    assert handler.good.total() - JOBS <= 2 * BATCH


@pytest.mark.timeout(180)
async def test_nothing_is_lost_when_connections_are_cut(redis_url: str, queue_name: str) -> None:
    handler = PartlyFailing()
    async with (
        Queue(queue_name, redis_url=redis_url) as queue,
        Proxy(redis_url) as proxy,
        working(batch_worker(proxy.url, queue_name, handler)),
    ):
        await queue.add_bulk([{"name": "n", "data": number} for number in range(JOBS // 2)])
        for cut in range(10):
            await until(lambda: len(handler.good) >= JOBS // 25 * cut, timeout_s=PATIENCE_S)  # noqa: B023
            proxy.cut()
        await queue.add_bulk([{"name": "n", "data": number} for number in range(JOBS // 2, JOBS)])
        await check_balance(queue, handler)
    assert handler.good.total() == JOBS
