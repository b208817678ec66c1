"""The calls that Chasqui and ChasquiMQ have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from benchmarks.peers.peer import ATTEMPTS, BACKOFF_MS, CONCURRENCY, QUEUE, Peer, until_sigterm


class ChasquiApi(Peer):
    """`Queue` and `Worker`, in the form that both packages share."""

    library: ClassVar[Any]
    waiting_keys = (f"{{chasqui:{QUEUE}}}:stream", f"{{chasqui:{QUEUE}}}:delayed")

    async def open(self) -> None:
        self._queue = self.library.Queue(QUEUE, redis_url=self.url)

    async def close(self) -> None:
        await self._queue.close()

    async def add(self, n: int) -> Any:
        return await self._queue.add("noop", {"n": n})

    async def add_bulk(self, ns: Sequence[int]) -> Any:
        return await self._queue.add_bulk([{"name": "noop", "data": {"n": n}} for n in ns])

    async def add_delayed_bulk(self, ns: Sequence[int], due_s: int) -> Any:
        return await self._queue.add_bulk(jobs_later(ns, due_s))

    async def add_with_options_bulk(self, ns: Sequence[int], due_s: int) -> Any:
        own = {"attempts": ATTEMPTS, "backoff": BACKOFF_MS}
        jobs = zip(ns, jobs_later(ns, due_s), strict=True)
        return await self._queue.add_bulk([{**job, **own, "job_id": f"job-{n}"} for n, job in jobs])

    async def results(self, ns: Sequence[int]) -> list[Any]:
        jobs = await self.add_bulk(ns)
        return await asyncio.gather(*(job.wait_for_result(timeout=120) for job in jobs))

    def run_worker(self) -> None:
        handler = self.plain_handler if self.work.handler == "plain" else self.async_handler
        worker = self.library.Worker(
            QUEUE,
            handler,
            redis_url=self.url,
            concurrency=CONCURRENCY,
            events_enabled=self.work.events,
            store_results=self.work.results,
        )
        until_sigterm(worker.run, worker.close)

    async def async_handler(self, job: Any) -> int | None:
        return self.ran(job.data["n"])

    def plain_handler(self, job: Any) -> Any:
        return self.ran(job.data["n"])


def jobs_later(ns: Sequence[int], due_s: int) -> list[Mapping[str, Any]]:
    """Jobs for `add_bulk` that run at one moment."""
    due = datetime.fromtimestamp(due_s, UTC)
    return [{"name": "noop", "data": {"n": n}, "delay_ms": due} for n in ns]
