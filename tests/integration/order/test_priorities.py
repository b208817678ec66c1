"""Priorities: what is urgent runs first, whoever added it; what is not runs in the end."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Job, Queue, QueueFullError, SyncQueue, UnrecoverableError
from chasqui_engine.admin.job_lookup import JobState
from tests.support.consumers import Gate, Recorder, WorkerProcess, consuming, noted
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

MINUTE_MS = 60_000


class Starts(Recorder):
    """A recorder whose jobs take a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def __call__(self, job: Job) -> None:
        await super().__call__(job)
        await asyncio.sleep(self._seconds)


class FailsOnce(Recorder):
    """A recorder whose first run of a job fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def __call__(self, job: Job) -> None:
        await super().__call__(job)
        if sum(one.id == job.id for one in self.jobs) == 1:
            raise self._error


async def left_of(raw: Redis, queue: Queue) -> list[int]:
    """What there is of jobs with a priority."""
    keys = queue._keys
    return [await raw.zcard(keys.prio), await raw.hlen(keys.prio_jobs), await raw.zcard(keys.delayed)]


@pytest.fixture
async def others(redis_url: str, queue_name: str) -> AsyncIterator[list[Queue]]:
    """Three more producers."""
    opened = [Queue(queue_name, redis_url=redis_url) for _ in range(3)]
    yield opened
    for queue in opened:
        await queue.close()


async def test_the_smaller_number_is_first_and_none_is_before_all(
    queue: Queue, others: list[Queue], redis_url: str, raw: Redis
) -> None:
    expected = [(priority, n) for priority in (0, 1, 5, 2_097_151) for n in range(25)]
    shuffled = sorted(expected, key=lambda one: (one[1], random.random()))
    for n, (priority, number) in enumerate(shuffled):
        await others[n % 3].add("n", [priority, number], priority=priority)
    assert (await queue.counts()).prioritized == 75
    handler = Recorder()
    async with consuming(redis_url, queue.name, handler, concurrency=1):
        await until(lambda: len(handler.jobs) == 100)
    assert [tuple(job.payload) for job in handler.jobs] == expected
    assert [job.priority for job in handler.jobs] == [priority for priority, _ in expected]
    assert await left_of(raw, queue) == [0, 0, 0]


async def test_several_workers_keep_the_order_while_jobs_come(
    queue: Queue, others: list[Queue], redis_url: str
) -> None:
    """No worker takes ahead: whatever starts is not behind anything that was there, but for what is under way."""
    handler = Starts(0.01)
    slots = 2 * 3
    async with (
        consuming(redis_url, queue.name, handler, concurrency=3),
        consuming(redis_url, queue.name, handler, concurrency=3),
    ):
        waiting: list[int] = []
        for wave in range(3):
            batch = [random.randint(1, 9) for _ in range(100)]
            await others[wave].add_bulk([{"name": "n", "data": p, "priority": p} for p in batch])
            waiting += batch
            begun = len(handler.jobs)
            await until(lambda begun=begun: len(handler.jobs) >= begun + 50)  # type: ignore[misc]
        await until(lambda: len(handler.jobs) == 300)
    assert sorted(handler.payloads) == sorted(waiting)
    # What was started after the last wave had come, and what was on its way then.
    tail = handler.payloads[begun + slots :]
    # How many that it has overtaken are more urgent.
    late = [sum(later < one for later in tail[n + 1 :]) for n, one in enumerate(tail)]
    assert max(late) <= slots, late


async def test_an_idle_worker_has_it_at_once(queue: Queue, redis_url: str) -> None:
    handler = Recorder()
    async with consuming(redis_url, queue.name, handler, block_ms=30_000):
        await queue.add("n", 0)
        await until(lambda: len(handler.jobs) == 1)
        for n in range(1, 6):
            await queue.add("n", n, priority=n)
            await until(lambda n=n: len(handler.jobs) == n + 1)  # type: ignore[misc]


async def test_a_worker_takes_none_while_all_its_tasks_are_busy(queue: Queue, redis_url: str) -> None:
    gate = Gate()
    async with consuming(redis_url, queue.name, gate, concurrency=2):
        await queue.add_bulk([{"name": "n", "data": f"low {n}", "priority": 9} for n in range(20)])
        await until(lambda: len(gate.started) == 2)
        await queue.add("n", "urgent", priority=1)
        await until(lambda: _prioritized(queue, 19))
        gate.open()
        await until(lambda: len(gate.finished) == 21)
    assert "urgent" in gate.started[2:4]


async def _prioritized(queue: Queue, count: int) -> bool:
    return (await queue.counts()).prioritized == count


async def test_what_has_waited_too_long_goes_first(queue_name: str, redis_url: str) -> None:
    """Nothing starves: the bound holds although more urgent jobs keep coming."""
    handler = Starts(0.02)
    async with Queue(queue_name, redis_url=redis_url, priority_max_wait_secs=1) as queue:
        await queue.add("n", "patient", priority=9)
        async with consuming(redis_url, queue_name, handler, concurrency=1):
            await until(lambda: handler.jobs)  # the first goes to the idle worker
            # At once, so that none of them starts before the others are there.
            patient = {"name": "n", "data": "patient too", "priority": 9}
            await queue.add_bulk([patient, *[{"name": "n", "data": "urgent", "priority": 1}] * 500])
            await until(lambda: "patient too" in handler.payloads)
            assert len(handler.jobs) < 400
            await queue.obliterate(force=True)
    assert handler.payloads.count("urgent") > 10


async def test_a_delayed_job_waits_for_its_turn_when_it_is_due(queue: Queue, redis_url: str) -> None:
    gate = Gate()
    await queue.add("n", "first")
    async with consuming(redis_url, queue.name, gate, concurrency=1):
        await until(lambda: gate.started)
        await queue.add("n", "later", priority=2, delay_ms=300)
        await queue.add_bulk([{"name": "n", "data": n, "priority": n} for n in (3, 1)])
        assert (await queue.get_job_counts("delayed", "prioritized")) == {"delayed": 1, "prioritized": 2}
        await until(lambda: _prioritized(queue, 3))
        gate.open()
        await until(lambda: len(gate.finished) == 4)
    assert gate.finished == ["first", 1, "later", 3]


async def test_a_retry_keeps_its_priority(queue: Queue, redis_url: str) -> None:
    handler = FailsOnce(ValueError("once"))
    await queue.add("n", "a", priority=3, attempts=2)
    await queue.add("n", "b", priority=3, attempts=2, headers={"h": "1"})
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: len(handler.jobs) == 4)
    assert {(job.payload, job.attempt, job.priority) for job in handler.jobs} == {
        (payload, attempt, 3) for payload in "ab" for attempt in (0, 1)
    }
    assert all(job.headers == {"h": "1"} for job in handler.jobs if job.payload == "b")


async def test_a_dead_letter_keeps_it_and_its_replay_waits_for_its_turn(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    handler = FailsOnce(UnrecoverableError("no"))
    await queue.add("n", "dies", priority=5)
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: raw.xlen(queue._keys.dlq))
    assert await queue.replay_dlq() == 1
    await queue.add("n", "more urgent", priority=4)
    assert (await queue.counts()).prioritized == 2
    again = Recorder()
    async with consuming(redis_url, queue.name, again, concurrency=1):
        await until(lambda: len(again.jobs) == 2)
    assert [(job.payload, job.priority) for job in again.jobs] == [("more urgent", 4), ("dies", 5)]


async def test_headers_are_there_from_the_first_job_on(queue: Queue, redis_url: str) -> None:
    handler = Recorder()
    async with consuming(redis_url, queue.name, handler):
        await until(queue.exists)
        await queue.add_bulk(
            [{"name": "n", "data": n, "priority": 1, "headers": {"n": str(n)}, "job_id": f"id {n}"} for n in range(10)]
        )
        await until(lambda: len(handler.jobs) == 10)
    assert all(job.headers == {"n": str(job.payload)} for job in handler.jobs)


async def test_a_priority_can_be_changed_until_the_job_is_next(queue: Queue, redis_url: str) -> None:
    jobs = [await queue.add("n", n, priority=n) for n in (5, 6, 7)]
    later = await queue.add("n", "later", delay_ms=MINUTE_MS)
    assert await queue.change_priority(jobs[2].id, 1)
    assert await queue.change_priority(jobs[0].id, 2_097_151)
    assert await queue.change_priority(later.id, 3)
    assert (await queue.get_job(later.id)).priority == 3
    assert [job.payload for job in await queue.get_jobs("prioritized")] == [7, 6, 5]
    assert await queue.change_priority(jobs[0].id, 0)
    assert (await queue.get_job(jobs[0].id)).state is JobState.WAITING
    assert not await queue.change_priority(jobs[0].id, 1)
    assert not await queue.change_priority("nobody", 1)
    assert await queue.run_delayed_now(later.id)
    handler = Recorder()
    async with consuming(redis_url, queue.name, handler, concurrency=1):
        await until(lambda: len(handler.jobs) == 4)
    # A job of one list may start while those of the other are on their way to the worker.
    assert [one for one in handler.payloads if one in (5, "later")] == [5, "later"]
    assert [one for one in handler.payloads if one in (6, 7)] == [7, 6]


async def test_they_are_listed_counted_found_and_removed(queue: Queue, raw: Redis) -> None:
    jobs = await queue.add_bulk([{"name": "n", "data": n, "priority": 1 + n // 10} for n in range(25)])
    own = await queue.add("n", "own", priority=3, job_id="own")
    await queue.add("n", "delayed", delay_ms=MINUTE_MS)
    assert await queue.add("n", "again", priority=3, job_id="own")
    assert await queue.get_job_counts("waiting", "delayed", "prioritized") == {
        "waiting": 0,
        "delayed": 1,
        "prioritized": 26,
    }
    found, cursor = [], None
    while True:
        page, cursor = await queue.get_jobs_page("prioritized", limit=10, cursor=cursor)
        found += [(job.payload, job.priority) for job in page]
        if cursor is None:
            break
    assert found == [(n, 1 + n // 10) for n in range(25)] + [("own", 3)]
    assert [job.payload for job in await queue.get_jobs("delayed")] == ["delayed"]
    assert [one.job.payload for one in await queue.list_delayed() if one.job] == ["delayed"]
    info = await queue.get_job(own.id)
    assert (info.state, info.priority, info.payload, info.run_at_ms) == (JobState.PRIORITIZED, 3, "own", None)
    assert await queue.cancel_delayed(jobs[0].id)
    assert await queue.remove("own") == 1
    assert (await queue.get_job(own.id)).state is JobState.UNKNOWN
    assert queue.added == 27
    await queue.add("n", "new", priority=3, job_id="own")
    assert await queue.clean(0, 100, "delayed")
    assert await queue.drain(delayed=False) == 25
    assert await left_of(raw, queue) == [0, 0, 0]


async def test_an_emptied_and_an_obliterated_queue_keep_nothing(queue: Queue, raw: Redis) -> None:
    for _ in range(2):
        await queue.add_bulk([{"name": "n", "data": n, "priority": 1, "delay_ms": n % 2 * 9000} for n in range(20)])
        assert await queue.drain() == 20
        assert await left_of(raw, queue) == [0, 0, 0]
    await queue.add("n", 1, priority=1)
    await queue.obliterate()
    assert [key async for key in raw.scan_iter(f"*{queue.name}*", count=10_000)] == []


async def test_a_full_queue_refuses_all_or_none(queue_name: str, redis_url: str) -> None:
    jobs: list[dict[str, Any]] = [{"name": "n", "data": n, "priority": n % 2} for n in range(6)]
    async with Queue(queue_name, redis_url=redis_url, max_stream_len=5) as queue:
        with pytest.raises(QueueFullError, match="no room for 6 more jobs"):
            await queue.add_bulk(jobs)
        assert (await queue.counts()).waiting + (await queue.counts()).prioritized == 0
        await queue.add_bulk(jobs[:5])
        with pytest.raises(QueueFullError):
            await queue.add("n", 1, priority=1)


@pytest.mark.parametrize("priority", [-1, 2_097_152, 1.5, "5", True])
async def test_what_is_no_priority_is_refused_by_name(queue: Queue, priority: Any) -> None:
    with pytest.raises(ConfigError, match="priority must be a whole number"):
        await queue.add("n", 1, priority=priority)


def test_a_program_without_asyncio_has_them(queue_name: str, redis_url: str) -> None:
    with SyncQueue(queue_name, redis_url=redis_url) as queue:
        job = queue.add("n", 1, priority=7)
        assert queue.change_priority(job.id, 2)
        assert queue.counts().prioritized == 1


async def test_a_pause_holds_them_back(queue: Queue, redis_url: str) -> None:
    handler = Recorder()
    await queue.pause()
    async with consuming(redis_url, queue.name, handler):
        await queue.add_bulk([{"name": "n", "data": n, "priority": 1} for n in range(10)])
        await asyncio.sleep(0.7)
        assert handler.jobs == []
        await queue.resume()
        await until(lambda: len(handler.jobs) == 10)


async def test_killed_workers_lose_none(queue: Queue, redis_url: str, raw: Redis) -> None:
    await queue.add_bulk([{"name": "n", "data": n, "priority": 1 + n % 3} for n in range(120)])
    settings: dict[str, Any] = {"concurrency": 4, "claim_min_idle_ms": 1000}
    for _ in range(3):
        with WorkerProcess(redis_url, queue.name, "sleep:0.02", **settings):
            begun = len(await noted(raw, queue.name, "started"))
            await until(lambda begun=begun: _started(raw, queue, begun + 15))  # type: ignore[misc]
    with WorkerProcess(redis_url, queue.name, "sleep:0.001", **settings):
        await until(lambda: _is_done(raw, queue))
    assert set(await noted(raw, queue.name, "finished")) == set(range(120))
    assert await left_of(raw, queue) == [0, 0, 0]


async def _started(raw: Redis, queue: Queue, count: int) -> bool:
    return len(await noted(raw, queue.name, "started")) >= count


async def _is_done(raw: Redis, queue: Queue) -> bool:
    return await raw.xlen(queue._keys.stream) + sum(await left_of(raw, queue)) == 0


async def test_a_queue_without_priorities_has_no_key_of_them(queue: Queue, redis_url: str, raw: Redis) -> None:
    handler = FailsOnce(ValueError("once"))
    await queue.add_bulk([{"name": "n", "data": n, "delay_ms": n} for n in range(5)])
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: len(handler.jobs) == 10)
    assert await raw.exists(queue._keys.prio, queue._keys.prio_jobs, queue._keys.prio_state) == 0
