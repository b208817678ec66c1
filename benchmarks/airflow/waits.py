"""Ten thousand deferred waits in one process, as a triggerer has them: connections, memory, and how late they hear."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from chasqui_engine import Job, Queue, Worker
from chasqui_provider.triggers.chasqui import ChasquiJobResultTrigger
from tests.servers import REDIS_8, ServerProcess

QUEUE = "bench-waits"
SETTLE_S = 8.0
"""Long enough for the look into the past, which is what costs connections, to be over."""
JOBS_PER_S = 500


async def measure(waits: int) -> dict[str, Any]:
    """Starts the waits, lets the jobs complete one after the other, and notes when each wait returns."""
    with ServerProcess(REDIS_8) as server:
        os.environ["AIRFLOW_CONN_CHASQUI_DEFAULT"] = json.dumps({"conn_type": "chasqui", "extra": {"url": server.url}})
        completed: dict[str, float] = {}
        told: dict[str, float] = {}

        async def wait(job_id: str) -> None:
            async for _ in ChasquiJobResultTrigger([job_id], QUEUE).run():
                told[job_id] = time.monotonic()

        async with Queue(QUEUE, redis_url=server.url) as queue, Redis.from_url(server.url) as client:
            await queue.counts()
            before = _memory_mb()
            ids = [f"job-{n}" for n in range(waits)]
            tasks = [asyncio.create_task(wait(job_id)) for job_id in ids]
            connections = await _most_connections(client)
            memory = _memory_mb() - before
            working = asyncio.create_task(_work(server.url, completed))
            started = time.monotonic()
            for start in range(0, waits, JOBS_PER_S // 10):
                part = ids[start : start + JOBS_PER_S // 10]
                await queue.add_bulk([{"name": "n", "data": None, "job_id": job_id} for job_id in part])
                await asyncio.sleep(max(0.0, started + (start + len(part)) / JOBS_PER_S - time.monotonic()))
            await asyncio.wait_for(asyncio.gather(*tasks), 300)
            took_s = time.monotonic() - started
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
    late_ms = sorted(1000 * (told[job_id] - completed[job_id]) for job_id in ids)
    return {
        "waits": waits,
        "redis connections": connections,
        "memory MB": round(memory, 1),
        "from completion to event p50 ms": round(late_ms[len(late_ms) // 2], 1),
        "from completion to event p99 ms": round(late_ms[int(len(late_ms) * 0.99)], 1),
        "all told after s": round(took_s, 1),
    }


async def _work(url: str, completed: dict[str, float]) -> None:
    async def handler(job: Job) -> int:
        completed[job.id] = time.monotonic()
        return 1

    worker = Worker(QUEUE, handler, redis_url=url, store_results=True)
    running = asyncio.create_task(worker.run())
    try:
        await asyncio.Event().wait()
    finally:
        await worker.close()
        await running


async def _most_connections(client: Redis) -> int:
    """The most connections of the waits that are seen at once, from the first one on."""
    most, give_up_at = 0, float("inf")
    while time.monotonic() < give_up_at:
        # The queue of this program is one of them: it adds the jobs.
        most = max(most, sum(QUEUE in one["name"] for one in await client.client_list()) - 1)
        if most > 0 and give_up_at == float("inf"):
            give_up_at = time.monotonic() + SETTLE_S
        await asyncio.sleep(0.05)
    return most


def _memory_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
