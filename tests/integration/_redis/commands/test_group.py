"""A group that is gone is made again, and work goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import Consumer, ConsumerConfig
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.servers import ServerProcess
from tests.support.consumers import Gate, Recorder, add, consuming, pending
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis


async def _lose(raw: Redis, queue: str, how: str) -> None:
    keys = QueueKeys(queue)
    if how == "group destroyed":
        await raw.xgroup_destroy(keys.stream, "default")
    elif how == "stream deleted":
        await raw.delete(keys.stream)
    else:
        found = [key async for key in raw.scan_iter(f"{keys.prefix}:*")]
        assert keys.stream.encode() in found
        await raw.delete(*found)


async def _group_is_there(raw: Redis, queue: str) -> bool:
    keys = QueueKeys(queue)
    return bool(await raw.exists(keys.stream)) and bool(await raw.xinfo_groups(keys.stream))


@pytest.mark.parametrize("how", ["group destroyed", "stream deleted", "all keys deleted"])
async def test_an_idle_worker_goes_on(redis_url: str, raw: Redis, queue_name: str, how: str) -> None:
    """While its read blocks for long."""
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, block_ms=30_000):
        await add(redis_url, queue_name, "before")
        await until(lambda: seen.payloads == ["before"])
        for turn in range(3):
            # Until its end is written, a job is given out again to whoever makes the group anew.
            await until(lambda: stream_is_empty(raw, queue_name))
            await _lose(raw, queue_name, how)
            await add(redis_url, queue_name, turn)
            await until(lambda: seen.payloads[1:] == list(range(turn + 1)))  # noqa: B023
        await until(lambda: stream_is_empty(raw, queue_name))


@pytest.mark.parametrize("how", ["group destroyed", "stream deleted", "all keys deleted"])
async def test_jobs_that_run_meanwhile_end_in_peace(redis_url: str, raw: Redis, queue_name: str, how: str) -> None:
    """Where only the group is gone, the entry is given out again: to us, who hold it, so that it is not run twice."""
    gate = Gate()
    async with consuming(redis_url, queue_name, gate, claim_min_idle_ms=300):
        await add(redis_url, queue_name, "running")
        await until(lambda: gate.started)
        await _lose(raw, queue_name, how)
        await until(lambda: _group_is_there(raw, queue_name))
        await add(redis_url, queue_name, "next")
        await until(lambda: gate.started == ["running", "next"])
        gate.open()
        await until(lambda: len(gate.finished) == 2)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert gate.started == gate.finished == ["running", "next"]
    completed = [event["e"] for event in await events_of(raw, queue_name)].count("completed")
    assert completed == (2 if how == "group destroyed" else 1)
    assert await dead_letters_of(raw, queue_name) == []


async def test_jobs_added_before_any_worker_are_run(redis_url: str, raw: Redis, queue_name: str) -> None:
    await add(redis_url, queue_name, *range(5))
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen):
        await until(lambda: seen.payloads == list(range(5)))


async def test_each_group_runs_every_job_it_can_see(redis_url: str, raw: Redis, queue_name: str) -> None:
    """A second group starts from the oldest entry; what the first has finished is gone."""
    first, second = Gate(), Gate()
    async with (
        consuming(redis_url, queue_name, first, group="one"),
        consuming(redis_url, queue_name, second, group="two"),
    ):
        await add(redis_url, queue_name, "x")
        await until(lambda: first.started == second.started == ["x"])
        first.open()
        second.open()
        await until(lambda: stream_is_empty(raw, queue_name))
    assert await pending(raw, queue_name, "one") == {}
    assert await pending(raw, queue_name, "two") == {}


async def test_a_key_of_another_kind_is_said_so(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Nothing that waiting would mend: the worker ends with the server's own words."""
    await raw.set(QueueKeys(queue_name).stream, "not a stream")
    run = Consumer(redis_url, ConsumerConfig(queue_name=queue_name)).run(Recorder(), asyncio.Event())
    with pytest.raises(Exception, match="WRONGTYPE"):
        await asyncio.wait_for(run, 5)


async def test_a_server_that_comes_back_empty(queue_name: str, server_kind: str) -> None:
    """kill -9 without persistence, as a cache that restarts: connections, group and scripts are all gone."""
    seen = Recorder()
    with ServerProcess(server_kind) as server:
        async with consuming(server.url, queue_name, seen):
            await add(server.url, queue_name, "before")
            await until(lambda: seen.payloads == ["before"])
            server.kill()
            server.start()
            await add(server.url, queue_name, "after")
            await until(lambda: seen.payloads == ["before", "after"])
