"""The scheduler with very many specs, with specs that cannot be read, and with rivals."""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import Producer, RepeatableSpec, RepeatPattern, Scheduler, SchedulerConfig
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.repeatable import encode_spec
from tests.support.queues import running, server_ms, waiting_jobs
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redis.asyncio import Redis

HOUR_MS = 3_600_000
HOURLY = RepeatPattern.every(HOUR_MS)


def scheduler(redis_url: str, queue_name: str, tick_interval_ms: int = 10, **options: Any) -> Scheduler:
    return Scheduler(redis_url, queue_name, SchedulerConfig(tick_interval_ms=tick_interval_ms, **options))


async def store_due(raw: Redis, queue_name: str, names: Iterable[str]) -> int:
    """Stores many specs that are all due; returns since when."""
    keys = QueueKeys(queue_name)
    at_ms = await server_ms(raw) - 1
    async with raw.pipeline(transaction=False) as pipe:
        for name in names:
            spec = RepeatableSpec(name, HOURLY, {"a": 1}, key=name)
            pipe.hset(keys.spec(name), "spec", encode_spec(spec))
            pipe.zadd(keys.repeat, {name: at_ms})
        await pipe.execute()
    return at_ms


async def test_ten_thousand_due_specs_are_worked_off_without_a_pause(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    names = [f"s{n}" for n in range(10_000)]
    at_ms = await store_due(raw, queue_name, names)
    tick_ms = 5000  # longer than a busy machine holds a round up
    async with running(scheduler(redis_url, queue_name, tick_interval_ms=tick_ms).run):
        await until(lambda: _count(raw, producer.stream_key, 10_000), every_s=0.05)
    entries = await raw.xrange(producer.stream_key)
    assert sorted(fields[b"n"].decode() for _, fields in entries) == sorted(names)
    fired_at = [int(entry_id.split(b"-")[0]) for entry_id, _ in entries]
    assert max(later - earlier for earlier, later in pairwise(fired_at)) < tick_ms
    scores = await raw.zrange(QueueKeys(queue_name).repeat, 0, -1, withscores=True)
    assert {int(score) for _, score in scores} == {at_ms + HOUR_MS}


async def _count(raw: Redis, stream: str, wanted: int) -> bool:
    return bool(await raw.xlen(stream) >= wanted)


def poisoned_spec(**changes: Any) -> bytes:
    fields = {
        "key": "k",
        "job_name": "poison",
        "pattern": {"Every": [1000]},
        "payload": b"\xc4\x01\x01",
        "limit": None,
        "start_after_ms": None,
        "end_before_ms": None,
        "fired": 0,
    }
    packed: bytes = msgpack.packb(list({**fields, **changes}.values()))
    return packed


POISON = {
    "not MessagePack": b"\xc1",
    "no array": msgpack.packb({"a": 1}),
    "too short": msgpack.packb(["k", "n"]),
    "no pattern": poisoned_spec(pattern=None),
    "an empty pattern": poisoned_spec(pattern={"Every": []}),
    "an unknown pattern": poisoned_spec(pattern={"Moon": ["full"]}),
    "a cron that is none": poisoned_spec(pattern={"Cron": ["whenever", None]}),
    "a cron without end": poisoned_spec(pattern={"Cron": [",".join(["0"] * 200_000) + " * * * *", None]}),
    "a name without end": poisoned_spec(job_name="n" * 1000),
    "a spec without end": poisoned_spec(payload=b"\xc4\x01\x01" + bytes(2**21)),
    "a zone that is none": poisoned_spec(pattern={"Cron": ["* * * * *", "Mars/Olympus"]}),
    "an interval of none": poisoned_spec(pattern={"Every": [0]}),
    "a payload that is none": poisoned_spec(payload=7),
    "a limit that is none": poisoned_spec(limit="many"),
    "an unknown policy": msgpack.packb([*msgpack.unpackb(poisoned_spec()), {"FireTwice": []}]),
}


async def test_poisoned_specs_do_not_stop_the_others(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    keys = QueueKeys(queue_name)
    for name, data in POISON.items():
        await raw.hset(keys.spec(name), "spec", data)
        await raw.zadd(keys.repeat, {name: 1})
    await raw.rpush(keys.spec("no hash"), "x")
    await raw.zadd(keys.repeat, {"no hash": 2, "not there": 3, "of old": "-inf"})
    await raw.hset(keys.spec("of old"), "spec", poisoned_spec())
    names = [f"fine{n}" for n in range(20)]
    await store_due(raw, queue_name, names)
    # The poison comes first, and fills more than one batch.
    async with running(scheduler(redis_url, queue_name, batch=4).run):
        await until(lambda: _count(raw, producer.stream_key, 20))
    assert sorted(job.name for job in await waiting_jobs(raw, queue_name)) == sorted(names)
    # What cannot be read is kept, in case a newer engine wrote it, but looked at much later.
    soon = await server_ms(raw) + HOUR_MS // 2
    assert await raw.zcount(keys.repeat, "-inf", soon) == 0
    for name in POISON:
        assert await raw.zscore(keys.repeat, name) is not None
    assert await raw.zscore(keys.repeat, "not there") is None


async def test_a_counter_that_is_no_number_does_not_repeat_the_fire(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    keys = QueueKeys(queue_name)
    at_ms = await store_due(raw, queue_name, ["a", "b"])
    await raw.hset(keys.spec("a"), "fired", "abc")
    await raw.zadd(keys.repeat, {"b": at_ms - 0.5})
    async with running(scheduler(redis_url, queue_name, tick_interval_ms=1).run):
        await until(lambda: _all_later(raw, queue_name, at_ms))
    assert sorted(job.name for job in await waiting_jobs(raw, queue_name)) == ["a", "b"]
    assert await raw.hget(keys.spec("a"), "fired") == b"1"


async def _all_later(raw: Redis, queue_name: str, at_ms: int) -> bool:
    return not await raw.zcount(QueueKeys(queue_name).repeat, "-inf", at_ms)


async def test_two_schedulers_at_once_never_fire_twice(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    """Both believe to lead: the lock is taken away from whoever has it, again and again."""
    names = [f"s{n}" for n in range(1500)]
    await store_due(raw, queue_name, names)
    keys = QueueKeys(queue_name)
    async with (
        running(scheduler(redis_url, queue_name, batch=40, lock_ttl_secs=1).run),
        running(scheduler(redis_url, queue_name, batch=50, lock_ttl_secs=1).run),
        running(scheduler(redis_url, queue_name, batch=60, lock_ttl_secs=1).run),
    ):

        async def unlocked_and_done() -> bool:
            await raw.delete(keys.scheduler_lock)
            return bool(await raw.xlen(keys.stream) >= 1500)

        await until(unlocked_and_done, every_s=0.002)
    assert sorted(job.name for job in await waiting_jobs(raw, queue_name)) == sorted(names)
    assert {await raw.hget(keys.spec(name), "fired") for name in names[::100]} == {b"1"}


async def test_a_refusing_server_is_tried_again_without_haste(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await store_due(raw, queue_name, [f"s{n}" for n in range(30)])
    await raw.set(producer.stream_key, "not a stream")
    with caplog.at_level(logging.WARNING, logger="chasqui"):
        async with running(scheduler(redis_url, queue_name, tick_interval_ms=100, batch=10).run):
            await until(lambda: "10 repeatables" in caplog.text)
            refusals = len(caplog.records)
            await raw.delete(producer.stream_key)
            await until(lambda: _count(raw, producer.stream_key, 30))
    assert refusals < 5
    assert sorted(job.name for job in await waiting_jobs(raw, queue_name)) == sorted(f"s{n}" for n in range(30))
