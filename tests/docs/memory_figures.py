"""What one job takes in the server, for the table in docs/howto/scaling.md: `python -m tests.docs.memory_figures`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

from redis.asyncio import Redis

from chasqui_engine import Job, Queue, UnrecoverableError, Worker
from tests.servers import REDIS_7, REDIS_8, VALKEY, ServerProcess
from tests.support.waiting import until

JOBS = 20_000


async def _handle(job: Job) -> dict[str, bool]:
    if job.name == "die":
        raise UnrecoverableError("no such address")
    return {"sent": True}


class Sizing:
    """Grows one kind of thing after the other on a server of its own."""

    def __init__(self, url: str, kind: str) -> None:
        self._url = url
        self._kind = kind

    async def measure(self) -> None:
        later = timedelta(hours=1)
        await self._grown("waiting", self._added("waiting"))
        await self._grown("waiting, with an id", self._added("known", ids="order"))
        await self._grown("delayed", self._added("delayed", delay=later))
        await self._grown("delayed, with an id", self._added("delayed-known", ids="later", delay=later))
        await self._grown("a result", self._run("results", "ok", store_results=True, events_enabled=False))
        await self._grown("a dead letter", self._run("dead", "die", events_enabled=False))
        await self._grown("events of one run", self._run("told", "ok"))

    async def _grown(self, label: str, work: Awaitable[None]) -> None:
        before = await self._used()
        await work
        print(f"{self._kind:<12}{label:<24}{(await self._used() - before) / JOBS:>6.0f} bytes", flush=True)

    async def _used(self) -> int:
        async with Redis.from_url(self._url) as server:
            return int((await server.info("memory"))["used_memory"])

    async def _added(self, queue_name: str, name: str = "send-email", ids: str = "", **options: Any) -> None:
        async with Queue(queue_name, redis_url=self._url) as queue:
            await queue.add_bulk([_job(n, name, ids, options) for n in range(JOBS)])

    async def _run(self, queue_name: str, name: str, **options: Any) -> None:
        worker = Worker(queue_name, _handle, redis_url=self._url, **options)
        running = asyncio.create_task(worker.run())
        await self._added(queue_name, name)
        async with Queue(queue_name, redis_url=self._url) as queue:

            async def idle() -> bool:
                counts = await queue.counts()
                return not counts.waiting and not counts.active

            await until(idle, every_s=0.1)
        await worker.close()
        await running


def _job(n: int, name: str, ids: str, options: dict[str, Any]) -> dict[str, Any]:
    data = {"to": f"user{n}@example.com", "n": n}
    return {"name": name, "data": data, **({"job_id": f"{ids}-{n}"} if ids else {}), **options}


def measured_on(kind: str) -> None:
    """All of it on one kind of server."""
    with ServerProcess(kind) as server:
        asyncio.run(Sizing(server.url, kind).measure())


if __name__ == "__main__":
    for each in (VALKEY, REDIS_8, REDIS_7):
        measured_on(each)
