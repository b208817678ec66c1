"""Lists of what a queue holds: waiting, active, dead, told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui_engine import ConfigError, Job, Producer, Worker
from chasqui_engine.admin.monitor import QueueMonitor
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis


async def test_nothing_is_listed_of_a_queue_that_is_not_there(producer: Producer) -> None:
    assert await producer.list_waiting() == []
    assert await producer.list_active() == []
    assert await producer.newest_events() == []
    assert await producer.events_of_job("nobody") == []
    assert await producer.page_newest_dlq(None) == []
    assert await producer.get_dead([]) == []


async def test_waiting_begins_behind_what_workers_have(producer: Producer, raw: Redis) -> None:
    ids = await producer.add_bulk([1, 2, 3, 4])
    assert [one.job_id for one in await producer.list_waiting()] == ids
    await raw.xgroup_create(producer.stream_key, "default", "0")
    await raw.xreadgroup("default", "somebody", {producer.stream_key: ">"}, count=1)
    waiting = await producer.list_waiting(2)
    assert [one.job_id for one in waiting] == ids[1:3]
    assert [one.job_id for one in await producer.list_waiting(after=waiting[-1].entry_id)] == ids[3:]
    [active] = await producer.list_active()
    assert (active.job_id, active.consumer, active.deliveries) == (ids[0], "somebody", 1)
    assert active.job is not None
    assert active.job.payload == 1
    # For a group that reads nothing, everything waits.
    assert len(await producer.list_waiting(group="other")) == 4


async def test_what_was_deleted_under_a_workers_hands_is_not_listed(producer: Producer, raw: Redis) -> None:
    await producer.add(1)
    await raw.xgroup_create(producer.stream_key, "default", "0")
    [[_, [(entry_id, _)]]] = await raw.xreadgroup("default", "somebody", {producer.stream_key: ">"}, count=1)
    await raw.xdel(producer.stream_key, entry_id)
    assert await producer.list_active() == []


async def test_dead_letters_from_the_newest_on_and_by_id(producer: Producer, raw: Redis) -> None:
    ids = [(await raw.xadd(producer.dlq_key, {"d": b"", "reason": str(n)})).decode() for n in range(5)]
    page = await producer.page_newest_dlq(None, 2)
    assert [entry.dlq_id for entry in page] == [ids[4], ids[3]]
    assert [entry.dlq_id for entry in await producer.page_newest_dlq(page[-1].dlq_id, 9)] == ids[2::-1]
    assert [entry.reason for entry in await producer.get_dead([ids[3], "1-1", ids[0]])] == ["3", "0"]


async def test_events_the_newest_first_and_of_one_job(producer: Producer, redis_url: str, queue_name: str) -> None:
    async def handle(job: Job) -> None:
        return None

    async with working(Worker(queue_name, handle, redis_url=redis_url)):
        job_id, other = await producer.add_bulk([1, 2])
        for one in (job_id, other):
            await until(lambda: _has_ended(producer, one))  # noqa: B023
    assert [event.name for event in await producer.events_of_job(job_id)] == ["active", "completed"]
    assert [event.name for event in await producer.events_of_job(job_id, 1)] == ["completed"]
    events = await producer.newest_events()
    assert [event.entry_id for event in events] == sorted(
        (event.entry_id for event in events), key=_order, reverse=True
    )
    assert {event.job_id for event in events if event.job_id} == {job_id, other}
    later = await producer.newest_events(after=events[-1].entry_id)
    assert later == events[:-1]
    assert await producer.newest_events(1, before=events[0].entry_id) == events[1:2]


async def _has_ended(producer: Producer, job_id: str) -> bool:
    return "completed" in [event.name for event in await producer.events_of_job(job_id)]


def _order(entry_id: str) -> tuple[int, ...]:
    return tuple(map(int, entry_id.split("-")))


async def test_a_negative_limit_is_named(producer: Producer) -> None:
    with pytest.raises(ConfigError, match="limit"):
        await producer.list_waiting(-1)


async def test_a_monitor_finds_every_queue(producer: Producer, redis_url: str, queue_name: str) -> None:
    await producer.add(1)
    monitor = await QueueMonitor.connect(redis_url)
    assert queue_name in await monitor.names()
    [seen] = await monitor.take_snapshots([queue_name], events=0)
    assert (seen.counts.waiting, seen.throughput.completed_per_s) == (1, 0)
    await monitor.close()
