"""arq."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import arq
from arq.connections import RedisSettings
from arq.worker import Worker, func

from benchmarks.peers.peer import ATTEMPTS, BACKOFF_MS, CONCURRENCY, QUEUE, FailsOnceError, Peer

_NO_BULK = "no bulk call: see add"
_AT_ONCE = 20


class Contestant(Peer):
    """Its worker polls, twice a second when the queue was empty."""

    left_out: ClassVar = {
        "add-bulk-50": _NO_BULK,
        "add-bulk-1000": _NO_BULK,
        "add-delayed-bulk": _NO_BULK,
        "add-with-options-bulk": _NO_BULK,
        "work-events": "no events",
    }
    most_jobs: ClassVar = {"*": 1_500, "latency": 20, "memory-delayed": 20_000, "retry": 1_000}
    waiting_keys = (QUEUE,)

    async def open(self) -> None:
        self._pool = await arq.create_pool(RedisSettings.from_dsn(self.url), default_queue_name=QUEUE)

    async def close(self) -> None:
        await self._pool.aclose()

    async def add(self, n: int) -> Any:
        return await self._pool.enqueue_job("noop", {"n": n})

    async def fill(self, ns: Sequence[int]) -> None:
        await self._fill(ns, None)

    async def fill_delayed(self, ns: Sequence[int], due_s: int) -> None:
        await self._fill(ns, datetime.fromtimestamp(due_s, UTC))

    async def _fill(self, ns: Sequence[int], due: datetime | None) -> list[Any]:
        jobs = []
        for first in range(0, len(ns), _AT_ONCE):
            batch = ns[first : first + _AT_ONCE]
            jobs += await asyncio.gather(*(self._pool.enqueue_job("noop", {"n": n}, _defer_until=due) for n in batch))
        return jobs

    async def results(self, ns: Sequence[int]) -> list[Any]:
        jobs = await self._fill(ns, None)
        return await asyncio.gather(*(job.result(timeout=120) for job in jobs))

    def run_worker(self) -> None:
        noop = func(self._handler, name="noop", keep_result=3600 if self.work.results else 0, max_tries=ATTEMPTS)
        settings = RedisSettings.from_dsn(self.url)
        Worker([noop], queue_name=QUEUE, redis_settings=settings, max_jobs=CONCURRENCY).run()

    async def _handler(self, context: Any, data: dict[str, int]) -> int | None:
        if self.work.handler == "plain":
            # Its functions must be coroutines: this is how its users run a plain one.
            return await asyncio.to_thread(self.ran, data["n"])
        try:
            return self.ran(data["n"])
        except FailsOnceError as error:
            # Only what is raised as Retry runs again.
            raise arq.Retry(defer=BACKOFF_MS / 1000) from error
