"""Aborting jobs of ChasquiMQ: what waits is gone for it too; what its worker runs goes on, and nobody is misled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import JobAbortedError, Producer, ProducerConfig
from tests.support.consumers import Recorder, WorkerProcess, consuming
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs

MINUTE_MS = 60_000


@pytest.fixture
async def producer(redis86_url: str, queue_name: str) -> AsyncIterator[Producer]:
    async with await Producer.connect(redis86_url, ProducerConfig(queue_name=queue_name)) as connected:
        yield connected


async def test_what_they_added_is_aborted_and_may_be_added_again(
    theirs: Theirs, producer: Producer, server: Redis, keys: QueueKeys
) -> None:
    now = await theirs.add("n", 1)
    for _ in range(2):
        await theirs.add("n", 2, job_id="later", delay_ms=MINUTE_MS)
        assert await producer.abort("later") == "removed"
    assert await producer.abort(now["id"]) == "removed"
    with pytest.raises(JobAbortedError):
        await producer.wait_for_result(now["id"], 10)
    assert await server.exists(keys.taken("later"), keys.delayed_index("later"), keys.delayed) == 0
    await theirs.work()
    kept = await theirs.add("n", 3)
    assert [run[0] for run in await theirs.wait_for_runs(1)] == [kept["id"]]


async def test_what_their_worker_runs_goes_to_its_end(theirs: Theirs, producer: Producer) -> None:
    await theirs.work(store_results=True, concurrency=1)
    job = await theirs.add("n", {"sleep": 1, "value": 7})
    await until(lambda: _is_active(producer))
    assert await producer.abort(job["id"], timeout=0.1) == "requested"
    assert await producer.abort(job["id"], timeout=20) == "gone"
    assert await producer.wait_for_result(job["id"], 10) == 7


async def _is_active(producer: Producer) -> bool:
    return (await producer.counts()).active == 1


async def test_what_their_dead_worker_left_is_aborted_by_ours(
    redis86_url: str, theirs: Theirs, ours: Ours, producer: Producer, queue_name: str
) -> None:
    job = await ours.add("n", 60)
    with WorkerProcess(redis86_url, queue_name, "sleep:60", engine="chasquimq") as dying:
        await until(lambda: _is_active(producer))
        assert await producer.abort(job.id, timeout=0.1) == "requested"
        dying.kill()
    ended = asyncio.create_task(producer.wait_for_result(job.id, 30))
    async with consuming(redis86_url, queue_name, handler := Recorder(), claim_min_idle_ms=300):
        with pytest.raises(JobAbortedError):
            await ended
    assert handler.jobs == []


async def test_their_subscriber_passes_an_abort_on(ours: Ours, theirs: Theirs, producer: Producer) -> None:
    await theirs.listen()
    job = await ours.add("mail", 1)
    assert await producer.abort(job.id) == "removed"
    [event] = [event for event in await theirs.wait_for_event("aborted") if event["name"] == "aborted"]
    assert event["job_id"] == job.id
