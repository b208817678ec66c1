"""A server that goes away under load and comes back: what was lost, what ran again, and how soon work went on."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from chasqui_engine import Job, Queue, RedisError, Worker
from chasqui_engine.runtime.clock import monotonic
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import ServerProcess

PATIENCE_S = 100.0
"""A server that waits for the disk at every add may have to wait long, on a machine that others use too."""
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
EVERYSEC = ("--appendonly", "yes", "--appendfsync", "everysec")


class Recorder:
    """A handler that counts."""

    def __init__(self, work_s: float = 0.002) -> None:
        self.runs: Counter[int] = Counter()
        self._work_s = work_s

    async def __call__(self, job: Job) -> None:
        self.runs[job.payload] += 1
        await asyncio.sleep(self._work_s)


class Outage(NamedTuple):
    """What came of it."""

    accepted: int
    lost: int
    again: int
    back_s: float
    """From the server's return to the next job that ran."""

    def __str__(self) -> str:
        return (
            f"{self.accepted} accepted, {self.lost} lost, {self.again} run again, at work again in {self.back_s:.1f} s"
        )


async def add_accepted(queue: Queue, numbers: range) -> None:
    """Adds one by one, each tried until the server confirms it."""
    for n in numbers:
        while True:
            try:
                await queue.add("n", n, job_id=f"job-{n}")
                break
            except RedisError:
                await asyncio.sleep(0.05)


async def outage(
    server: ServerProcess, queue_name: str, end: Callable[[], None], down_s: float, *, jobs: int
) -> Outage:
    """Ends the server in the middle of `jobs` and starts it again; returns when nothing more is to be expected."""
    recorder = Recorder()
    worker = Worker(queue_name, recorder, redis_url=server.url, claim_min_idle_ms=1000, read_block_ms=500)
    async with Queue(queue_name, redis_url=server.url) as queue, working(worker):
        adding = asyncio.create_task(add_accepted(queue, range(jobs)))
        await until(lambda: len(recorder.runs) > jobs // 5, timeout_s=PATIENCE_S)
        await asyncio.to_thread(end)
        await asyncio.sleep(down_s)
        before = recorder.runs.total()
        await asyncio.to_thread(server.start)
        back = monotonic()
        await until(lambda: recorder.runs.total() > before, timeout_s=PATIENCE_S)
        back_s = monotonic() - back
        await asyncio.wait_for(adding, PATIENCE_S)
        # A marker behind all the others; what has not run when the queue is empty will not.
        await add_accepted(queue, range(jobs, jobs + 1))
        await until(lambda: recorder.runs[jobs] and _is_empty(queue), timeout_s=PATIENCE_S)
    ran = sum(1 for n in range(jobs) if recorder.runs[n])
    again = sum(recorder.runs[n] - 1 for n in range(jobs) if recorder.runs[n])
    return Outage(jobs, jobs - ran, again, back_s)


async def _is_empty(queue: Queue) -> bool:
    counts = await queue.counts()
    return counts.waiting + counts.active + counts.delayed == 0
