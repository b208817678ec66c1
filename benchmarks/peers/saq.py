"""SAQ on Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import saq

from benchmarks.peers.peer import ATTEMPTS, BACKOFF_MS, CONCURRENCY, QUEUE, Peer

_NO_BULK = "no bulk call: see add"
_NOT_STORED = -1
_AT_ONCE = 20


class Contestant(Peer):
    """Its worker looks for delayed jobs once a second."""

    left_out: ClassVar = {
        "add-bulk-50": _NO_BULK,
        "add-bulk-1000": _NO_BULK,
        "add-delayed-bulk": _NO_BULK,
        "add-with-options-bulk": _NO_BULK,
        "work-events": "no events",
    }
    most_jobs: ClassVar = {"*": 2_000, "latency": 1_000, "memory-delayed": 20_000, "retry": 1_000}
    waiting_keys = (f"saq:{QUEUE}:incomplete",)

    async def open(self) -> None:
        self._queue = saq.Queue.from_url(self.url, name=QUEUE)
        self._options: dict[str, Any] = {} if self.work.results else {"ttl": _NOT_STORED}
        if self.work.handler == "fails once":
            self._options |= {"retries": ATTEMPTS, "retry_delay": BACKOFF_MS / 1000}

    async def close(self) -> None:
        await self._queue.disconnect()

    async def add(self, n: int) -> Any:
        return await self._queue.enqueue("noop", n=n, **self._options)

    async def fill(self, ns: Sequence[int]) -> None:
        await self._fill(ns, {})

    async def fill_delayed(self, ns: Sequence[int], due_s: int) -> None:
        await self._fill(ns, {"scheduled": due_s})

    async def _fill(self, ns: Sequence[int], more: dict[str, Any]) -> None:
        for first in range(0, len(ns), _AT_ONCE):
            batch = ns[first : first + _AT_ONCE]
            await asyncio.gather(*(self._queue.enqueue("noop", n=n, **self._options, **more) for n in batch))

    async def results(self, ns: Sequence[int]) -> list[Any]:
        return await self._queue.map("noop", [{"n": n} for n in ns], timeout=120)

    def run_worker(self) -> None:
        plain = self.work.handler == "plain"
        handler = self._plain_handler if plain else self._async_handler

        async def run() -> None:
            queue = saq.Queue.from_url(self.url, name=QUEUE)
            await saq.Worker(queue, [("noop", handler)], concurrency=CONCURRENCY).start()

        asyncio.run(run())

    async def _async_handler(self, context: Any, *, n: int) -> int | None:
        return self.ran(n)

    def _plain_handler(self, context: Any, *, n: int) -> int | None:
        return self.ran(n)
