"""taskiq with the stream broker of taskiq-redis, the one of its brokers that acknowledges."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any, ClassVar

from taskiq import SimpleRetryMiddleware
from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from benchmarks.peers.peer import ATTEMPTS, CONCURRENCY, QUEUE, Peer, until_sigterm

_NO_BULK = "no bulk call: see add"
_NO_DELAYS = "delays need a scheduler process beside the worker"
_AT_ONCE = 20


class Contestant(Peer):
    """A failed task runs again at once."""

    left_out: ClassVar = {
        "add-bulk-50": _NO_BULK,
        "add-bulk-1000": _NO_BULK,
        "add-delayed-bulk": _NO_BULK,
        "add-with-options-bulk": _NO_BULK,
        "work-events": "no events",
        "delayed-e2e": _NO_DELAYS,
        "memory-delayed": _NO_DELAYS,
    }
    most_jobs: ClassVar = {"*": 2_000, "latency": 1_000, "retry": 2_000}
    waiting_keys = (QUEUE,)
    removes_finished = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._broker = RedisStreamBroker(self.url, queue_name=QUEUE)
        if self.work.results:
            self._broker = self._broker.with_result_backend(RedisAsyncResultBackend(self.url, result_ex_time=3600))
        if self.work.handler == "fails once":
            again = SimpleRetryMiddleware(default_retry_count=ATTEMPTS, default_retry_label=True)
            self._broker = self._broker.with_middlewares(again)

        async def async_handler(data: dict[str, int]) -> int | None:
            return self.ran(data["n"])

        def plain_handler(data: dict[str, int]) -> int | None:
            return self.ran(data["n"])

        handler = plain_handler if self.work.handler == "plain" else async_handler
        self._task = self._broker.register_task(handler, task_name="noop")

    async def open(self) -> None:
        await self._broker.startup()

    async def close(self) -> None:
        await self._broker.shutdown()

    async def add(self, n: int) -> Any:
        return await self._task.kiq({"n": n})

    async def fill(self, ns: Sequence[int]) -> None:
        await self._fill(ns)

    async def _fill(self, ns: Sequence[int]) -> list[Any]:
        tasks = []
        for first in range(0, len(ns), _AT_ONCE):
            tasks += await asyncio.gather(*(self._task.kiq({"n": n}) for n in ns[first : first + _AT_ONCE]))
        return tasks

    async def results(self, ns: Sequence[int]) -> list[Any]:
        tasks = await self._fill(ns)
        done = await asyncio.gather(*(task.wait_result(timeout=120) for task in tasks))
        return [one.return_value for one in done]

    def run_worker(self) -> None:
        async def run() -> None:
            receiving = run_receiver_task(self._broker, run_startup=True, max_async_tasks=CONCURRENCY)
            self._running = asyncio.ensure_future(receiving)
            with contextlib.suppress(asyncio.CancelledError):
                await self._running

        async def stop() -> None:
            self._running.cancel()

        until_sigterm(run, stop)
