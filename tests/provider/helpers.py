"""Workers and waiting for the provider's tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from chasqui_engine import Job, UnrecoverableError, Worker

DEADLINE_S = 20.0

SETTINGS = {"read_block_ms": 100, "scheduler_tick_ms": 50, "shutdown_deadline_secs": 2}


async def double(job: Job) -> Any:
    """The handler of most tests: by the payload, doubles, dies, or gives bytes."""
    if job.name == "die":
        raise UnrecoverableError("no such luck")
    if job.name == "bytes":
        return {"raw": b"\x00\xff"}
    return job.payload["n"] * 2


@asynccontextmanager
async def worker(url: str, queue_name: str, handler: Any = double, **options: Any) -> AsyncIterator[Worker]:
    """A worker in this event loop."""
    running = Worker(queue_name, handler, redis_url=url, **{"store_results": True, **SETTINGS, **options})
    task = asyncio.create_task(running.run())
    try:
        yield running
    finally:
        await running.close()
        await asyncio.wait_for(task, DEADLINE_S)


@contextmanager
def worker_thread(url: str, queue_name: str, handler: Any = double, **options: Any) -> Iterator[None]:
    """A worker beside blocking code."""
    stop = threading.Event()

    async def run() -> None:
        async with worker(url, queue_name, handler, **options):
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(DEADLINE_S)


class AssetState:
    """The state store of an asset, with some keys in it, as a trigger reads it."""

    def __init__(self, *keys: str, error: Exception | None = None) -> None:
        self._keys = keys
        self._error = error
        self.asked: list[str] = []

    async def aget(self, key: str) -> str | None:
        self.asked.append(key)
        if self._error:
            raise self._error
        return "there" if key in self._keys else None
