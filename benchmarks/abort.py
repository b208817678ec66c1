"""The time until the abort of a job that another process runs is confirmed: `python -m benchmarks.abort URL`."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
import uuid

from chasqui_engine import Job, Queue, Worker

JOBS = 200
CONCURRENCY = 20


async def _sleep(job: Job) -> None:
    await asyncio.sleep(60)


async def _work(url: str, queue: str) -> None:
    await Worker(queue, _sleep, redis_url=url, concurrency=CONCURRENCY, shutdown_deadline_secs=0.1).run()


async def measure(url: str, jobs: int = JOBS) -> dict[str, float]:
    """Seconds per abort: median, 99th percentile and longest. One job at a time, while others run beside it."""
    name = f"bench-abort-{uuid.uuid4()}"
    times: list[float] = []
    worker = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks.abort", url, name)
    try:
        async with Queue(name, redis_url=url) as queue:
            for _ in range(jobs):
                await _fill(queue)
                [job, *_] = await queue.list_active(1)
                assert job.job_id is not None
                begun = time.perf_counter()
                state = await queue.abort(job.job_id, timeout=10)
                times.append(time.perf_counter() - begun)
                assert state == "aborted", state
            await queue.obliterate(force=True)
    finally:
        worker.kill()
        await worker.wait()
    return {"p50": statistics.median(times), "p99": statistics.quantiles(times, n=100)[98], "longest": max(times)}


async def _fill(queue: Queue) -> None:
    """As many jobs as the worker runs at once."""
    counts = await queue.counts()
    await queue.add_bulk([{"name": "sleep", "data": None}] * (CONCURRENCY - counts.active - counts.waiting))
    while (await queue.counts()).active < CONCURRENCY:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        asyncio.run(_work(sys.argv[1], sys.argv[2]))
    else:
        found = asyncio.run(measure(sys.argv[1]))
        print(f"{JOBS} aborts:", ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in found.items()))
