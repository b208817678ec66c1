"""Leaders: one at a time, given back only by its holder, taken over within the time to live."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import Promoter, PromoterConfig, Scheduler, SchedulerConfig
from chasqui_engine.metrics import InMemorySink, LockOutcome
from chasqui_engine.runtime.clock import monotonic
from tests.servers import ServerProcess
from tests.support.consumers import Recorder, consuming
from tests.support.queues import running
from tests.support.waiting import until

ROLES = ("promoter", "scheduler")


def service(role: str, redis_url: str, queue_name: str, holder_id: str, **options: Any) -> Promoter | Scheduler:
    if role == "promoter":
        config = PromoterConfig(holder_id=holder_id, poll_interval_ms=10, **options)
        return Promoter(redis_url, queue_name, config)
    return Scheduler(redis_url, queue_name, SchedulerConfig(holder_id=holder_id, tick_interval_ms=10, **options))


def lock_of(role: str, queue_name: str) -> str:
    return f"{{chasqui:{queue_name}}}:{role}:lock"


@pytest.mark.parametrize("role", ROLES)
async def test_one_of_many_leads_and_another_takes_over_at_once(
    redis_url: str, raw: Redis, queue_name: str, role: str
) -> None:
    lock = lock_of(role, queue_name)
    async with AsyncExitStack() as stack:
        stops = {}
        for n in range(4):
            one = service(role, redis_url, queue_name, f"holder-{n}", lock_ttl_secs=1)
            stops[f"holder-{n}".encode()] = await stack.enter_async_context(running(one.run))
        seen = set()
        for _ in range(4):
            holder = await until(lambda: raw.get(lock))
            assert 0 < await raw.pttl(lock) <= 1000
            assert holder not in seen
            seen.add(holder)
            stops[holder].set()
            await until(lambda gone=holder: _is_not(raw, lock, gone))
    assert seen == set(stops)
    assert await raw.get(lock) is None


async def test_the_config_names_the_queue_where_nothing_else_does(redis_url: str, raw: Redis, queue_name: str) -> None:
    promoter = Promoter(redis_url, config=PromoterConfig(queue_name=queue_name))
    scheduler = Scheduler(redis_url, config=SchedulerConfig(queue_name=queue_name))
    async with running(promoter.run), running(scheduler.run):
        await until(lambda: raw.get(lock_of("promoter", queue_name)))
        await until(lambda: raw.get(lock_of("scheduler", queue_name)))


@pytest.mark.parametrize("role", ROLES)
async def test_a_sink_hears_who_leads(redis_url: str, raw: Redis, queue_name: str, role: str) -> None:
    first, second = InMemorySink(), InMemorySink()
    async with running(service(role, redis_url, queue_name, "first", metrics=first).run):
        await until(lambda: first.events(LockOutcome))
        async with running(service(role, redis_url, queue_name, "second", metrics=second).run):
            await until(lambda: second.events(LockOutcome))
    assert first.events(LockOutcome) == [LockOutcome.ACQUIRED]
    assert second.events(LockOutcome) == [LockOutcome.HELD]


async def test_a_workers_sink_hears_of_its_scheduler_too(redis_url: str, queue_name: str) -> None:
    sink, own = InMemorySink(), InMemorySink()
    async with consuming(redis_url, queue_name, Recorder(), metrics=sink, run_scheduler=True):
        await until(lambda: len(sink.events(LockOutcome)) == 2)
    options = {"run_scheduler": True, "scheduler": SchedulerConfig(metrics=own)}
    async with consuming(redis_url, queue_name, Recorder(), delayed_enabled=False, metrics=sink, **options):
        await until(lambda: own.events(LockOutcome) == [LockOutcome.ACQUIRED])
    assert sink.events(LockOutcome) == [LockOutcome.ACQUIRED] * 2


async def _is_not(raw: Redis, lock: str, holder: bytes) -> bool:
    return bool(await raw.get(lock) != holder)


async def test_a_leader_renews_its_lock_in_time(redis_url: str, raw: Redis, queue_name: str) -> None:
    lock = lock_of("promoter", queue_name)
    async with running(service("promoter", redis_url, queue_name, "first", lock_ttl_secs=1).run):
        await until(lambda: raw.get(lock))
        lowest = renewals = 0
        left = 1000
        while renewals < 3:
            before, left = left, await raw.pttl(lock)
            if left > before:
                renewals, lowest = renewals + 1, before
                assert lowest > 0
                assert await raw.get(lock) == b"first"
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("role", ROLES)
async def test_only_the_holder_gives_the_lock_back(redis_url: str, raw: Redis, queue_name: str, role: str) -> None:
    lock = lock_of(role, queue_name)
    async with running(service(role, redis_url, queue_name, "mine", lock_ttl_secs=5).run):
        await until(lambda: raw.get(lock))
        await raw.set(lock, "another", px=60_000)
    assert await raw.get(lock) == b"another"


@pytest.mark.parametrize("role", ROLES)
async def test_the_lock_of_one_that_died_is_taken_over_within_its_ttl(
    redis_url: str, raw: Redis, queue_name: str, role: str
) -> None:
    lock = lock_of(role, queue_name)
    await raw.set(lock, "dead", px=300)
    async with running(service(role, redis_url, queue_name, "heir", lock_ttl_secs=1).run):
        started = monotonic()
        await until(lambda: _is(raw, lock, b"heir"))
        # What is left of the old lock, and at most a tenth of the own until the next try.
        assert monotonic() - started < 5


async def _is(raw: Redis, lock: str, holder: bytes) -> bool:
    return bool(await raw.get(lock) == holder)


@pytest.mark.parametrize("role", ROLES)
async def test_a_leader_survives_losing_its_connection(redis_url: str, raw: Redis, queue_name: str, role: str) -> None:
    lock = lock_of(role, queue_name)
    async with running(service(role, redis_url, queue_name, "mine", lock_ttl_secs=1).run):
        await until(lambda: raw.get(lock))
        for client in await raw.client_list():
            if client["name"].endswith(queue_name):
                await raw.client_kill_filter(_id=client["id"])
        await raw.delete(lock)
        await until(lambda: _is(raw, lock, b"mine"))


async def test_a_service_stops_also_while_the_server_is_away(queue_name: str, caplog: pytest.LogCaptureFixture) -> None:
    with ServerProcess() as server:
        shutdown = asyncio.Event()
        running_service = asyncio.create_task(service("promoter", server.url, queue_name, "mine").run(shutdown))
        async with Redis.from_url(server.url) as client:
            await until(lambda: client.get(lock_of("promoter", queue_name)))
        server.kill()
        await until(lambda: "cannot reach" in caplog.text)
        shutdown.set()
        async with asyncio.timeout(15):
            await running_service
