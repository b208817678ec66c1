"""BullMQ's own port of its library to Python."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import bullmq

from benchmarks.peers.peer import ATTEMPTS, BACKOFF_MS, CONCURRENCY, QUEUE, Peer, until_sigterm

_RETRIES = {"attempts": ATTEMPTS, "backoff": {"type": "fixed", "delay": BACKOFF_MS}}


class Contestant(Peer):
    """A finished job is removed, unless its result is to be kept (BullMQ keeps results within finished jobs)."""

    left_out: ClassVar = {
        "work": "always writes events: see work-events",
        "work-results": "always writes events",
        "results": "its Python package cannot wait for a result",
    }
    most_jobs: ClassVar = {
        "*": 2_000,
        "add-bulk-50": 20_000,
        "add-bulk-1000": 20_000,
        "latency": 1_000,
        "memory-delayed": 50_000,
        "retry": 1_000,
    }
    waiting_keys = (f"bull:{QUEUE}:wait", f"bull:{QUEUE}:delayed")

    async def open(self) -> None:
        options = {"removeOnComplete": not self.work.results}
        if self.work.handler == "fails once":
            options |= _RETRIES
        self._queue = bullmq.Queue(QUEUE, {"connection": self.url, "defaultJobOptions": options})

    async def close(self) -> None:
        await self._queue.close()

    async def add(self, n: int) -> Any:
        return await self._queue.add("noop", {"n": n})

    async def add_bulk(self, ns: Sequence[int]) -> Any:
        return await self._queue.addBulk([{"name": "noop", "data": {"n": n}} for n in ns])

    async def add_delayed_bulk(self, ns: Sequence[int], due_s: int) -> Any:
        options = {"delay": _delay_ms(due_s)}
        return await self._queue.addBulk([{"name": "noop", "data": {"n": n}, "opts": options} for n in ns])

    async def add_with_options_bulk(self, ns: Sequence[int], due_s: int) -> Any:
        options = {"delay": _delay_ms(due_s), **_RETRIES}
        return await self._queue.addBulk(
            [{"name": "noop", "data": {"n": n}, "opts": {**options, "jobId": f"job-{n}"}} for n in ns]
        )

    def run_worker(self) -> None:
        async def run() -> None:
            self._worker = bullmq.Worker(
                QUEUE, self._handler, {"connection": self.url, "concurrency": CONCURRENCY, "autorun": False}
            )
            await self._worker.run()

        async def stop() -> None:
            await self._worker.close()

        until_sigterm(run, stop)

    async def _handler(self, job: Any, token: str) -> int | None:
        if self.work.handler == "plain":
            # Its processors must be coroutines: this is how its users run a plain function.
            return await asyncio.to_thread(self.ran, job.data["n"])
        return self.ran(job.data["n"])


def _delay_ms(due_s: int) -> int:
    return max(1, due_s * 1000 - int(time.time() * 1000))
