"""The scheduler: fires what is due by the server's clock, counts it, and sets the next time."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import (
    BackoffSpec,
    JobRetryOverride,
    MissedFiresPolicy,
    Producer,
    Queue,
    RepeatableSpec,
    RepeatPattern,
    Scheduler,
    SchedulerConfig,
    Worker,
)
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.repeatable import encode_spec
from tests.support.queues import running, server_ms, waiting_jobs, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

HOUR_MS = 3_600_000
HOURLY = RepeatPattern.every(HOUR_MS)


def scheduler(redis_url: str, queue_name: str, tick_interval_ms: int = 10, **options: Any) -> Scheduler:
    return Scheduler(redis_url, queue_name, SchedulerConfig(tick_interval_ms=tick_interval_ms, **options))


async def make_due(raw: Redis, queue_name: str, key: str, ago_ms: int = 0) -> int:
    """Moves the next fire of a spec into the past; returns when that is."""
    at_ms = await server_ms(raw) - ago_ms
    await raw.zadd(QueueKeys(queue_name).repeat, {key: at_ms}, xx=True)
    return at_ms


async def next_fire(raw: Redis, queue_name: str, key: str) -> int | None:
    score = await raw.zscore(QueueKeys(queue_name).repeat, key)
    return None if score is None else int(score)


async def moved_on(raw: Redis, queue_name: str, key: str, at_ms: int) -> bool:
    return await next_fire(raw, queue_name, key) != at_ms


async def fired(raw: Redis, queue_name: str, key: str) -> int:
    return int(await raw.hget(QueueKeys(queue_name).spec(key), "fired") or 0)


async def test_a_due_spec_fires_and_is_set_to_its_next_time(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("report", HOURLY, {"to": "a"}))
    at_ms = await make_due(raw, queue_name, key)
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: raw.xlen(producer.stream_key))
        await until(lambda: fired(raw, queue_name, key))
    [job] = await waiting_jobs(raw, queue_name)
    assert (job.name, job.payload, job.attempt, job.retry) == ("report", {"to": "a"}, 0, None)
    assert len(job.id) == 26
    assert job.created_at_ms >= at_ms
    assert await next_fire(raw, queue_name, key) == at_ms + HOUR_MS
    assert await fired(raw, queue_name, key) == 1


async def test_every_job_of_a_spec_has_its_limits(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        stored = await queue.upsert_repeatable_job("report", 1, repeat=HOURLY, attempts=4, backoff=60_000, key="mine")
        [meta] = await queue.get_repeatable_jobs()
    retry = JobRetryOverride(4, BackoffSpec.fixed(60_000).with_own_maximum())
    assert (stored.id, meta.key, meta.retry) == ("mine", "mine", retry)
    at_ms = await make_due(raw, queue_name, "mine")
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: moved_on(raw, queue_name, "mine", at_ms))
    [job] = await waiting_jobs(raw, queue_name)
    assert (job.name, job.attempt, job.retry) == ("report", 0, retry)


async def test_nothing_fires_before_its_time_whatever_the_own_clock_says(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await producer.upsert_repeatable(RepeatableSpec("later", HOURLY, 1, key="later"))
    await producer.upsert_repeatable(RepeatableSpec("now", HOURLY, 1, key="now"))
    await make_due(raw, queue_name, "now")
    real_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + 2 * HOUR_MS * 10**6)
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: raw.xlen(producer.stream_key))
        await asyncio.sleep(0.05)
    assert [job.name for job in await waiting_jobs(raw, queue_name)] == ["now"]


async def test_every_repeats_without_drift(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("tick", RepeatPattern.every(40), 1))
    first = await next_fire(raw, queue_name, key)
    assert first is not None
    # A tick much longer than the interval: what is due before the next tick is not late.
    async with running(scheduler(redis_url, queue_name, tick_interval_ms=10_000).run):
        await until(lambda: _count(raw, producer.stream_key, 5))
    upcoming = await next_fire(raw, queue_name, key)
    assert upcoming is not None
    assert (upcoming - first) % 40 == 0
    assert await fired(raw, queue_name, key) == await raw.xlen(producer.stream_key)


async def _count(raw: Redis, stream: str, at_least: int) -> bool:
    return bool(await raw.xlen(stream) >= at_least)


@pytest.mark.parametrize("expression", ["* * * * * *", "*/5 * * * * *", "* * * * *"])
async def test_cron_fires_on_whole_seconds(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str, expression: str
) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("n", RepeatPattern.cron(expression), 1))
    first = await next_fire(raw, queue_name, key)
    assert first is not None
    assert first % 1000 == 0
    # Even after a fire that did not.
    at_ms = await make_due(raw, queue_name, key, ago_ms=17)
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: moved_on(raw, queue_name, key, at_ms))
    following = await next_fire(raw, queue_name, key)
    assert following is not None
    assert following % 1000 == 0


async def test_limit_ends_a_spec(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("n", RepeatPattern.every(15), 1, limit=3))
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: _gone(raw, queue_name, key))
        await asyncio.sleep(0.06)
    jobs = await waiting_jobs(raw, queue_name)
    assert len(jobs) == 3
    assert len({job.id for job in jobs}) == 3


async def _gone(raw: Redis, queue_name: str, key: str) -> bool:
    keys = QueueKeys(queue_name)
    return await raw.zscore(keys.repeat, key) is None and not await raw.exists(keys.spec(key))


async def test_the_first_fire_comes_after_the_start(producer: Producer, raw: Redis, queue_name: str) -> None:
    begin = await server_ms(raw) + 10 * HOUR_MS
    key = await producer.upsert_repeatable(RepeatableSpec("n", HOURLY, 1, start_after_ms=begin))
    assert await next_fire(raw, queue_name, key) == begin + HOUR_MS


@pytest.mark.parametrize("beyond_ms", [0, 1], ids=["next fire at the end", "next fire after the end"])
async def test_a_spec_ends_when_its_next_fire_would_come_after_the_end(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str, beyond_ms: int
) -> None:
    keys = QueueKeys(queue_name)
    at_ms = await server_ms(raw)
    spec = RepeatableSpec("n", HOURLY, 1, key="k", end_before_ms=at_ms + HOUR_MS - beyond_ms)
    await raw.hset(keys.spec("k"), "spec", encode_spec(spec))
    await raw.zadd(keys.repeat, {"k": at_ms})
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: moved_on(raw, queue_name, "k", at_ms))
    assert await raw.xlen(producer.stream_key) == 1
    assert await next_fire(raw, queue_name, "k") == (None if beyond_ms else at_ms + HOUR_MS)
    assert await _gone(raw, queue_name, "k") == bool(beyond_ms)


MISSED: dict[str, tuple[MissedFiresPolicy, int]] = {
    "skip": (MissedFiresPolicy.skip(), 0),
    "fire once": (MissedFiresPolicy.fire_once(), 1),
    "fire all, but not too many": (MissedFiresPolicy.fire_all(4), 4),
    "fire all": (MissedFiresPolicy.fire_all(1000), 11),
}


@pytest.mark.parametrize("policy", MISSED)
async def test_missed_fires(producer: Producer, redis_url: str, raw: Redis, queue_name: str, policy: str) -> None:
    missed, fires = MISSED[policy]
    minute = RepeatPattern.every(60_000)
    key = await producer.upsert_repeatable(RepeatableSpec("n", minute, 1, missed_fires=missed))
    at_ms = await make_due(raw, queue_name, key, ago_ms=10 * 60_000 + 10_000)
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: moved_on(raw, queue_name, key, at_ms))
    assert await raw.xlen(producer.stream_key) == fires
    assert await fired(raw, queue_name, key) == fires
    # The next one is in the row that the missed ones were in.
    assert await next_fire(raw, queue_name, key) == at_ms + 11 * 60_000


async def test_a_late_fire_is_not_a_missed_one(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("n", HOURLY, 1, missed_fires=MissedFiresPolicy.skip()))
    at_ms = await make_due(raw, queue_name, key, ago_ms=HOUR_MS // 2)
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: moved_on(raw, queue_name, key, at_ms))
    assert await raw.xlen(producer.stream_key) == 1
    assert await next_fire(raw, queue_name, key) == at_ms + HOUR_MS


async def test_fires_that_are_made_up_for_count_against_the_limit(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    spec = RepeatableSpec("n", RepeatPattern.every(1000), 1, limit=5, missed_fires=MissedFiresPolicy.fire_all(100))
    key = await producer.upsert_repeatable(spec)
    await raw.hset(QueueKeys(queue_name).spec(key), "fired", 2)
    await make_due(raw, queue_name, key, ago_ms=60_000)
    async with running(scheduler(redis_url, queue_name).run):
        await until(lambda: _gone(raw, queue_name, key))
    assert await raw.xlen(producer.stream_key) == 3


async def test_a_worker_fires_and_runs_them(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    ran: list[tuple[str, Any]] = []

    async def note(job: Job) -> None:
        ran.append((job.name, job.data))

    job = await queue.add("tick", {"n": 1}, repeat=RepeatPattern.every(30))
    async with working(Worker(queue_name, note, redis_url=redis_url, read_block_ms=50, scheduler_tick_ms=10)):
        await until(lambda: len(ran) >= 2)
        assert await queue.remove_repeatable_by_key(job.id)
    assert set(map(repr, ran)) == {repr(("tick", {"n": 1}))}


async def test_a_worker_can_leave_that_to_others(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    ran: list[str] = []

    async def note(job: Job) -> None:
        ran.append(job.name)

    await queue.add("tick", 1, repeat=RepeatPattern.every(10))
    worker = Worker(queue_name, note, redis_url=redis_url, read_block_ms=50, run_scheduler=False)
    async with working(worker):
        await queue.add("plain", 1, delay_ms=100)
        await until(lambda: ran)
    assert ran == ["plain"]
