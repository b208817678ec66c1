"""A handler that forks: the child never acts for the worker, and the worker goes on."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.consumers import WorkerProcess, add, diary
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

JOBS = [*range(20), "fork", *range(20, 40), "fork at the end", *range(40, 60)]


@pytest.mark.parametrize("behaviour", ["fork", "fork_thread"])
async def test_the_child_ends_and_the_worker_goes_on(
    redis_url: str, raw: Redis, queue_name: str, behaviour: str
) -> None:
    with WorkerProcess(redis_url, queue_name, behaviour, concurrency=4, claim_min_idle_ms=1000) as worker:
        await add(redis_url, queue_name, *JOBS)
        await until(lambda: stream_is_empty(raw, queue_name))
        await until(lambda: not _living_children(worker.pid))
        worker.terminate()
        assert await worker.ended() == 0
    notes = await diary(raw, queue_name)
    assert Counter(str(payload) for _, payload, _, _ in notes) == Counter(map(str, JOBS))
    assert {pid for *_, pid in notes} == {worker.pid}
    assert Counter(event["e"] for event in await events_of(raw, queue_name))["completed"] == len(JOBS)
    assert await dead_letters_of(raw, queue_name) == []


async def test_a_worker_that_died_is_gone_although_its_child_lives(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Else the server would go on to give it jobs, each of which would wait until it is claimed."""
    with WorkerProcess(redis_url, queue_name, "fork_and_die") as worker:
        await add(redis_url, queue_name, "last")
        assert await worker.ended() == -signal.SIGKILL
    await until(lambda: _nobody_waits(raw), timeout_s=2)
    assert len(await diary(raw, queue_name)) == 1


async def _nobody_waits(raw: Redis) -> bool:
    return bool((await raw.info("clients"))["blocked_clients"] == 0)


def _living_children(pid: int) -> list[str]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [child for child in children if os.path.exists(f"/proc/{child}/exe")]
