"""Many workers in one process share what need not be there once for each."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.support.consumers import Recorder, add, consuming
from tests.support.waiting import until

if TYPE_CHECKING:
    from chasqui_engine import Job

WORKERS = 20


def _hearts() -> int:
    return sum(thread.name == "chasqui-heartbeat" for thread in threading.enumerate())


async def test_one_thread_beats_for_all_and_ends_with_the_last(valkey_url: str, queue_name: str) -> None:
    seen = Recorder()
    async with AsyncExitStack() as stack:
        for number in range(WORKERS):
            await stack.enter_async_context(consuming(valkey_url, f"{queue_name}-{number}", seen))
        for number in range(WORKERS):
            await add(valkey_url, f"{queue_name}-{number}", number)
        await until(lambda: sorted(seen.payloads) == list(range(WORKERS)))
        assert _hearts() == 1
    await until(lambda: _hearts() == 0)


async def test_the_end_of_one_worker_leaves_the_jobs_of_another_alone(valkey_url: str, queue_name: str) -> None:
    runs: list[int] = []

    async def handler(job: Job) -> None:
        runs.append(job.payload)
        await asyncio.sleep(1.5)

    settings = {"claim_min_idle_ms": 300}
    async with (
        consuming(valkey_url, queue_name, handler, **settings),
        consuming(valkey_url, queue_name, handler, **settings),
    ):
        async with consuming(valkey_url, f"{queue_name}-other", Recorder(), **settings):
            await add(valkey_url, queue_name, 1, 2, 3)
            await until(lambda: len(runs) == 3)
        await asyncio.sleep(1.2)
    assert sorted(runs) == [1, 2, 3]
