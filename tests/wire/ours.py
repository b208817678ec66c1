"""Our side, in the same words as theirs."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from chasqui_engine import (
    Consumer,
    ConsumerConfig,
    Job,
    Queue,
    QueueEvents,
    RetryConfig,
    Scheduler,
    SchedulerConfig,
    UnrecoverableError,
)
from tests.support.waiting import until
from tests.wire.peer import act, record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NO_PAUSE = RetryConfig(initial_backoff_ms=1, jitter_ms=0)


class Ours(Queue):
    """Our queue, with what is needed to work on it."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(name, redis_url=url)
        self._where = url

    @asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[list[Any]]:
        """A worker for the time of the block; gives what its handler was given."""
        runs: list[Any] = []

        async def handler(job: Job) -> Any:
            runs.append(record(job))
            return await act(job, UnrecoverableError)

        settings = {"block_ms": 50, "run_scheduler": False, "retry": NO_PAUSE, **options}
        config = ConsumerConfig(queue_name=self.name, **settings)
        async with served(Consumer(self._where, config).run, handler):
            yield runs

    @asynccontextmanager
    async def scheduling(self) -> AsyncIterator[None]:
        """A scheduler for the time of the block."""
        async with served(Scheduler(self._where, self.name, SchedulerConfig(tick_interval_ms=50)).run):
            yield

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[list[dict[str, Any]]]:
        """A subscriber from the oldest event on; gives what it hears, in the form in which theirs does."""
        heard: list[dict[str, Any]] = []

        async def listen() -> None:
            async for event in events:
                fields = {"name": event.name, "job_id": event.job_id, "job_name": event.job_name}
                heard.append({**fields, "fields": event.fields})

        async with QueueEvents(self.name, redis_url=self._where, last_event_id="0", block_ms=50) as events:
            task = asyncio.create_task(listen())
            yield heard
            await events.close()
            await task


@asynccontextmanager
async def served(run: Any, *args: Any) -> AsyncIterator[None]:
    """A service for the time of the block; what it dies of fails the test."""
    shutdown = asyncio.Event()
    task = asyncio.create_task(run(*args, shutdown))
    try:
        yield
    finally:
        shutdown.set()
        await asyncio.wait_for(task, 15)


async def wait_for_runs(runs: list[Any], count: int) -> list[Any]:
    """The runs, as soon as there are `count`."""
    await until(lambda: len(runs) >= count)
    return runs
