"""Repeatables that are paused, resumed, and fired by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui_engine import ConfigError, Producer, RepeatableSpec, RepeatPattern, Scheduler, SchedulerConfig
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.queues import running, server_ms, waiting_jobs
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

HOUR_MS = 3_600_000
HOURLY = RepeatPattern.every(HOUR_MS)


async def test_a_paused_spec_does_not_fire_until_it_is_resumed(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    paused = await producer.upsert_repeatable(RepeatableSpec("paused", RepeatPattern.every(20), 1))
    assert await producer.pause_repeatable(paused)
    assert not await producer.pause_repeatable(paused)
    await producer.upsert_repeatable(RepeatableSpec("other", RepeatPattern.every(20), 1))
    scheduler = Scheduler(redis_url, queue_name, SchedulerConfig(tick_interval_ms=10))
    async with running(scheduler.run):
        await until(lambda: raw.xlen(producer.stream_key))
        assert {job.name for job in await waiting_jobs(raw, queue_name)} == {"other"}
        assert {meta.job_name: meta.is_paused for meta in await producer.list_repeatable()} == {
            "other": False,
            "paused": True,
        }
        assert await producer.resume_repeatable(paused)

        async def both_fired() -> bool:
            return {job.name for job in await waiting_jobs(raw, queue_name)} == {"other", "paused"}

        await until(both_fired)
    assert not await producer.resume_repeatable(paused)


@pytest.mark.parametrize("pattern", [HOURLY, RepeatPattern.every(1)], ids=["same", "another"])
async def test_an_upsert_does_not_end_a_pause(producer: Producer, pattern: RepeatPattern) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("report", HOURLY, 1, key="own"))
    await producer.pause_repeatable(key)
    await producer.upsert_repeatable(RepeatableSpec("report", pattern, 2, key="own"))
    [meta] = await producer.list_repeatable()
    assert (meta.is_paused, meta.pattern) == (True, pattern)


async def test_a_resumed_spec_fires_next_as_one_that_was_just_added(
    producer: Producer, raw: Redis, queue_name: str
) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("report", HOURLY, 1))
    # Overdue by a day when it was paused: what it missed is not made up for.
    await raw.zadd(QueueKeys(queue_name).repeat, {key: await server_ms(raw) - 24 * HOUR_MS}, xx=True)
    assert await producer.pause_repeatable(key)
    before = await server_ms(raw)
    assert await producer.resume_repeatable(key)
    [meta] = await producer.list_repeatable()
    assert before + HOUR_MS <= meta.next_fire_ms <= await server_ms(raw) + HOUR_MS


async def test_one_that_has_ended_while_paused_is_not_resumed(producer: Producer, raw: Redis) -> None:
    end_ms = await server_ms(raw) + 500
    key = await producer.upsert_repeatable(RepeatableSpec("n", RepeatPattern.every(200), 1, end_before_ms=end_ms))
    await producer.pause_repeatable(key)

    async def is_past() -> bool:
        return await server_ms(raw) > end_ms

    await until(is_past)
    with pytest.raises(ConfigError, match="end_before_ms"):
        await producer.resume_repeatable(key)
    [meta] = await producer.list_repeatable()
    assert meta.is_paused


async def test_a_fire_by_hand_makes_a_job_and_leaves_the_spec_as_it_is(
    producer: Producer, raw: Redis, queue_name: str
) -> None:
    key = await producer.upsert_repeatable(RepeatableSpec("report", HOURLY, {"to": "ada"}, limit=1))
    before = await raw.zscore(QueueKeys(queue_name).repeat, key)
    first, second = await producer.fire_repeatable(key), await producer.fire_repeatable(key)
    jobs = await waiting_jobs(raw, queue_name)
    assert [(job.id, job.name, job.payload, job.attempt) for job in jobs] == [
        (first, "report", {"to": "ada"}, 0),
        (second, "report", {"to": "ada"}, 0),
    ]
    assert await raw.zscore(QueueKeys(queue_name).repeat, key) == before
    assert await raw.hget(QueueKeys(queue_name).spec(key), "fired") is None
    await producer.pause_repeatable(key)
    assert await producer.fire_repeatable(key) is not None


async def test_of_a_spec_that_is_missing_nothing_happens(producer: Producer, raw: Redis) -> None:
    assert not await producer.pause_repeatable("none")
    assert not await producer.resume_repeatable("none")
    assert await producer.fire_repeatable("none") is None
    assert not await raw.exists(producer.stream_key)
