"""streaQ."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from streaq import StreaqRetry, Worker

from benchmarks.peers.peer import ATTEMPTS, BACKOFF_MS, CONCURRENCY, QUEUE, FailsOnceError, Peer

_WAITS_AT_ONCE = 50


class Contestant(Peer):
    """A task's ids are its own, and its retries belong to the function, not to the job."""

    left_out: ClassVar = {
        "add-with-options-bulk": "a job has neither an id nor retries of its own",
        "work-events": "no events",
    }
    most_jobs: ClassVar = {
        "*": 2_000,
        "add-bulk-50": 20_000,
        "add-bulk-1000": 20_000,
        "latency": 1_000,
        "memory-delayed": 50_000,
        "retry": 1_000,
    }
    waiting_keys = (f"streaq:{QUEUE}:queues:normal", f"streaq:{QUEUE}:queues:delayed:normal")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._worker = Worker(redis_url=self.url, queue_name=QUEUE, concurrency=CONCURRENCY)
        handler = self._plain_handler if self.work.handler == "plain" else self._async_handler
        register = self._worker.task(name="noop", ttl=300 if self.work.results else 0, max_tries=ATTEMPTS)
        self._task = register(handler)

    async def open(self) -> None:
        await self._worker.__aenter__()

    async def close(self) -> None:
        await self._worker.__aexit__(None, None, None)

    async def add(self, n: int) -> Any:
        return await self._task.enqueue({"n": n})

    async def add_bulk(self, ns: Sequence[int]) -> Any:
        tasks = [self._task.enqueue({"n": n}) for n in ns]
        await self._worker.enqueue_many(tasks)
        return tasks

    async def add_delayed_bulk(self, ns: Sequence[int], due_s: int) -> Any:
        due = datetime.fromtimestamp(due_s, UTC)
        return await self._worker.enqueue_many([self._task.enqueue({"n": n}).start(schedule=due) for n in ns])

    async def results(self, ns: Sequence[int]) -> list[Any]:
        tasks = await self.add_bulk(ns)
        # Each wait holds a connection and needs another: with more waits than its pool has connections, none ends.
        limit = asyncio.Semaphore(_WAITS_AT_ONCE)

        async def wait(task: Any) -> Any:
            async with limit:
                return (await task.result(timeout=120)).result

        return await asyncio.gather(*map(wait, tasks))

    def run_worker(self) -> None:
        self._worker.run_sync()

    async def _async_handler(self, data: dict[str, int]) -> int | None:
        try:
            return self.ran(data["n"])
        except FailsOnceError as error:
            # Only what is raised as StreaqRetry runs again.
            raise StreaqRetry("again", delay=timedelta(milliseconds=BACKOFF_MS)) from error

    def _plain_handler(self, data: dict[str, int]) -> int | None:
        return self.ran(data["n"])
