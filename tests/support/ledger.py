"""A worker with a ledger of what it ran."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from chasqui_engine import Job, Queue, Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

FAST: dict[str, Any] = {"read_block_ms": 200, "claim_min_idle_ms": 1000, "scheduler_tick_ms": 50}
"""Settings of workers whose jobs come back soon when a connection took them along."""


class Ledger:
    """Counts how often each job ran."""

    def __init__(self) -> None:
        self.runs: Counter[Any] = Counter()

    async def handle(self, job: Job) -> Any:
        self.runs[job.data] += 1
        return job.data

    def has(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.runs) >= count

    @property
    def twice(self) -> int:
        """Runs beyond the first."""
        return self.runs.total() - len(self.runs)


@contextlib.asynccontextmanager
async def working(
    queue_name: str, url: str | None, ledger: Ledger | None = None, **options: Any
) -> AsyncIterator[Ledger]:
    """A worker that runs for the time of the block, with its ledger; what ends it early is raised."""
    ledger = ledger or Ledger()
    worker = Worker(queue_name, ledger.handle, redis_url=url, **{**FAST, **options})
    running = asyncio.create_task(worker.run())
    try:
        yield ledger
        assert not running.done(), "the worker ended by itself"
    finally:
        await worker.close()
        await running


async def check_round_trip(queue_name: str, url: str | None, **options: Any) -> None:
    """Adds jobs for now and for soon, runs them, and waits for their results."""
    async with Queue(queue_name, redis_url=url, **options) as queue:
        async with working(queue_name, url, store_results=True, **options) as ledger:
            now = await queue.add("now", 1)
            soon = await queue.add("soon", 2, delay_ms=20)
            assert await now.wait_for_result(timeout=10) == 1
            assert await soon.wait_for_result(timeout=10) == 2
        assert ledger.runs == {1: 1, 2: 1}
