"""The registry of a queue's workers: who is there, where, what it runs, and who died."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, HandlerRegistry, Queue, Worker, version
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import now_ms
from tests.support.consumers import Gate, WorkerProcess, add, consuming
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job
    from chasqui_engine.admin import ConsumerInfo


async def _registered(raw: Redis, queue_name: str) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = await raw.hgetall(QueueKeys(queue_name).workers)
    return found


async def _workers(queue: Queue) -> tuple[ConsumerInfo, ...]:
    return (await queue.snapshot()).consumers


async def _alive(queue: Queue, count: int) -> tuple[ConsumerInfo, ...]:
    """The workers, as soon as so many are alive."""

    async def there() -> tuple[ConsumerInfo, ...] | None:
        found = await _workers(queue)
        return found if sum(one.alive is True for one in found) == count else None

    found = await until(there)
    assert found is not None
    return found


async def test_a_worker_says_who_it_is_and_signs_off(redis_url: str, raw: Redis, queue_name: str) -> None:
    handlers = HandlerRegistry()

    @handlers.handler("send", "send-again")
    async def send(job: Job) -> None: ...

    async with Queue(queue_name, redis_url=redis_url) as queue:
        begun_ms = now_ms()
        async with consuming(redis_url, queue_name, handlers.dispatcher(), concurrency=7) as running:
            [one] = await _alive(queue, 1)
            assert one.name == running.config.consumer_id
            assert re.fullmatch(rf".+-{os.getpid()}-[0-9a-z]{{6}}", one.name)
            assert (one.host, one.pid, one.version) == (socket.gethostname(), os.getpid(), version())
            assert (one.concurrency, one.handlers) == (7, ("send", "send-again"))
            assert queue_name in one.queues
            assert (one.running, one.buffered, one.active) == (0, 0, 0)
            assert one.started_ms is not None
            assert begun_ms <= one.started_ms <= now_ms()
            assert 0 < await raw.ttl(QueueKeys(queue_name).workers) <= 3600
            assert (await queue.health()).healthy
        assert await _registered(raw, queue_name) == {}
        assert await _workers(queue) == ()


async def test_running_and_buffered_are_told_apart(redis_url: str, queue_name: str) -> None:
    gate = Gate()
    async with Queue(queue_name, redis_url=redis_url) as queue, consuming(redis_url, queue_name, gate, concurrency=2):
        await add(redis_url, queue_name, *range(30))

        async def told() -> bool:
            return any(
                one.running == 2 and bool(one.buffered) and one.active == 2 + one.buffered
                for one in await _workers(queue)
            )

        await until(told)
        seen = await queue.snapshot()
        assert (seen.running, seen.buffered) == (2, seen.counts.active - 2)
        assert seen.counts.waiting + seen.counts.active == 30
        gate.open()


async def test_a_handler_that_blocks_the_loop_does_not_silence_its_worker(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    """The numbers change while the loop stands still: they are told all the same."""
    with WorkerProcess(redis_url, queue_name, "block:60") as process:
        await until(lambda: _registered(raw, queue_name))
        [name] = await _registered(raw, queue_name)
        await add(redis_url, queue_name, "x")

        async def told_of_the_run() -> bool:
            entry = (await _registered(raw, queue_name))[name]
            return json.loads(entry.partition(b" ")[2])["running"] == 1

        await until(told_of_the_run)
        process.kill()


async def test_one_that_was_killed_is_shown_as_dead_for_an_hour(redis_url: str, raw: Redis, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    async with Queue(queue_name, redis_url=redis_url) as queue:
        with WorkerProcess(redis_url, queue_name, "sleep:0") as process:
            await _alive(queue, 1)
            process.kill()
        [(name, entry)] = (await _registered(raw, queue_name)).items()
        seen_ms, _, facts = entry.partition(b" ")
        await raw.hset(keys.workers, name, b"%d %s" % (int(seen_ms) - 60_000, facts))
        [one] = await _workers(queue)
        assert (one.name, one.alive) == (name.decode(), False)
        assert one.idle_ms >= 60_000
        seen = await queue.snapshot()
        assert (seen.workers, seen.running) == (0, 0)
        assert not (await queue.health()).healthy
        # Its place in the group may be gone, with a server that was started anew: it is still seen.
        await raw.delete(keys.stream)
        [one] = await _workers(queue)
        assert (one.name, one.alive, one.active) == (name.decode(), False, 0)
        await raw.hset(keys.workers, name, b"%d %s" % (int(seen_ms) - 3_700_000, facts))
        assert await _workers(queue) == ()
        async with consuming(redis_url, queue_name, Gate()):
            await _alive(queue, 1)
            assert name not in await _registered(raw, queue_name), "the next one that starts clears up"


async def test_an_entry_that_was_deleted_comes_back(redis_url: str, raw: Redis, queue_name: str) -> None:
    gate = Gate()
    async with Queue(queue_name, redis_url=redis_url) as queue, consuming(redis_url, queue_name, gate):
        await _alive(queue, 1)
        await raw.delete(QueueKeys(queue_name).workers)
        await add(redis_url, queue_name, "x")  # its numbers change, so it tells them within a second
        await _alive(queue, 1)
        gate.open()


@pytest.mark.parametrize(
    "entry",
    [b"", b"garbage", b"12 {", b"99999999999999999999 {}", b"1 []", b'%d {"group": "default", "pid": "x", "host": 3}'],
)
async def test_what_others_wrote_there_does_no_harm(redis_url: str, raw: Redis, queue_name: str, entry: bytes) -> None:
    keys = QueueKeys(queue_name)
    seconds, _ = await raw.time()
    await raw.xgroup_create(keys.stream, "default", mkstream=True)
    await raw.hset(keys.workers, "odd", entry.replace(b"%d", b"%d" % (seconds * 1000)))
    async with Queue(queue_name, redis_url=redis_url) as queue:
        for one in await _workers(queue):
            assert (one.name, one.pid, one.host, one.running, one.runs) == ("odd", None, None, None, 0)
    await raw.delete(keys.workers)
    await raw.set(keys.workers, "of another type")
    gate = Gate()
    async with Queue(queue_name, redis_url=redis_url) as queue, consuming(redis_url, queue_name, gate):
        gate.open()
        await queue.add("n", 1)
        await until(lambda: _has_run(gate))
        [one] = await _workers(queue)
        assert (one.alive, one.running) == (None, None)


async def _has_run(gate: Gate) -> bool:
    return bool(gate.finished)


async def test_names_that_were_given(redis_url: str, queue_name: str) -> None:
    async def handler(job: Job) -> None: ...

    first, second = (Worker(queue_name, handler, redis_url=redis_url, name="mailer") for _ in range(2))
    running = [asyncio.create_task(one.run()) for one in (first, second)]
    async with Queue(queue_name, redis_url=redis_url) as queue:
        found = await _alive(queue, 2)
        assert sorted(one.name for one in found) == sorted([first.consumer_id, second.consumer_id])
        assert all(re.fullmatch("mailer-[0-9a-z]{6}", one.name) for one in found)
    for one in (first, second):
        await one.close()
    await asyncio.gather(*running)


@pytest.mark.parametrize(("arguments", "named"), [({"name": "a", "consumer_id": "b"}, "name"), ({"name": "{"}, "name")])
def test_a_name_that_cannot_be(arguments: dict[str, Any], named: str) -> None:
    async def handler(job: Job) -> None: ...

    with pytest.raises(ConfigError, match=named):
        Worker("q", handler, **arguments)
