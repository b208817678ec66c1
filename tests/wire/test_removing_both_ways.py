"""Deleting jobs of ChasquiMQ's: what it added and we delete is gone for it too; what its worker runs is left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui_engine import Producer, ProducerConfig
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


async def test_what_they_added_is_removed_and_may_be_added_again(
    theirs: Theirs, producer: Producer, server: Redis, keys: QueueKeys
) -> None:
    now = await theirs.add("n", 1)
    for _ in range(2):
        await theirs.add("n", 2, job_id="later", delay_ms=MINUTE_MS)
        assert await server.zcard(keys.delayed) == 1
        assert (await producer.remove_report("later"))["delayed"]
    assert await producer.remove(now["id"]) == 1
    assert await server.exists(keys.taken("later"), keys.delayed_index("later"), keys.delayed) == 0
    await theirs.work()
    kept = await theirs.add("n", 3)
    assert [run[0] for run in await theirs.wait_for_runs(1)] == [kept["id"]]


async def test_what_their_worker_runs_is_left_alone(theirs: Theirs, producer: Producer) -> None:
    await theirs.work(store_results=True, concurrency=1)
    job = await theirs.add("n", {"sleep": 1, "value": 7})
    await until(lambda: _is_active(producer))
    assert (await producer.remove_report(job["id"]))["active"]
    assert await producer.drain() == 0
    assert await producer.wait_for_result(job["id"], 10) == 7


async def _is_active(producer: Producer) -> bool:
    return (await producer.counts()).active == 1


async def test_their_subscriber_passes_a_removal_on(ours: Ours, theirs: Theirs, producer: Producer) -> None:
    await theirs.listen()
    job = await ours.add("mail", 1)
    assert await producer.remove(job.id) == 1
    [event] = [event for event in await theirs.wait_for_event("removed") if event["name"] == "removed"]
    assert event["job_id"] == job.id


async def test_their_dead_letters_are_cleaned(
    theirs: Theirs, producer: Producer, server: Redis, keys: QueueKeys
) -> None:
    await theirs.work()
    job = await theirs.add("n", {"bury": "no"})
    await until(lambda: server.xlen(keys.dlq))
    assert [dead.id for dead in await producer.get_jobs("failed")] == [job["id"]]
    assert await producer.clean(0, 10, "failed") == [job["id"]]
    assert await theirs.peek_dlq() == []


async def test_their_worker_goes_on_after_a_queue_was_deleted(theirs: Theirs, producer: Producer) -> None:
    await theirs.add("n", 1, delay_ms=MINUTE_MS)
    await theirs.add("n", 2)
    assert await producer.obliterate() >= 2
    await theirs.work()
    job = await theirs.add("n", 3)
    assert [run[0] for run in await theirs.wait_for_runs(1)] == [job["id"]]
