"""A job that is alive is never taken away: not while it runs, not while it waits in its worker's buffer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import redis
from redis.asyncio import Redis

from chasqui_engine import Consumer, ConsumerConfig
from tests.support.consumers import Gate, WorkerProcess, add, consuming, noted, pending
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from chasqui_engine import Job

CLAIM_MS = 500
LONG_S = 1.2
"""Several times the silence after which others may claim."""


@pytest.mark.parametrize("behaviour", ["sleep", "block", "thread"])
async def test_two_workers_run_each_long_job_once(redis_url: str, raw: Redis, queue_name: str, behaviour: str) -> None:
    """In the loop, blocking the loop, and in a thread; with more jobs than hands, so that some wait in buffers."""
    settings = {"claim_min_idle_ms": CLAIM_MS, "max_attempts": 2, "concurrency": 1}
    here: list[int] = []

    async def sleep(job: Job) -> None:
        here.append(job.payload)
        await asyncio.sleep(LONG_S)

    with WorkerProcess(redis_url, queue_name, f"{behaviour}:{LONG_S}", read_block_ms=100, **settings):
        await until(lambda: _group_is_there(raw, queue_name))
        async with consuming(redis_url, queue_name, sleep, **settings):
            await add(redis_url, queue_name, *range(4))
            await until(lambda: stream_is_empty(raw, queue_name))
        there = await noted(raw, queue_name, "started")
    assert here, there
    assert Counter(here + there) == dict.fromkeys(range(4), 1)
    assert await dead_letters_of(raw, queue_name) == []
    kinds = Counter(event["e"] for event in await events_of(raw, queue_name))
    assert (kinds["active"], kinds["completed"], kinds["failed"]) == (4, 4, 0)


async def test_a_chasquimq_worker_does_not_take_our_jobs(redis86_url: str, queue_name: str) -> None:
    """Seen with ChasquiMQ workers alone: a job longer than the claim runs again and again."""
    gate = Gate()
    async with (
        Redis.from_url(redis86_url) as raw,
        consuming(redis86_url, queue_name, gate, claim_min_idle_ms=CLAIM_MS, concurrency=1),
    ):
        await add(redis86_url, queue_name, "running", "buffered")
        await until(lambda: _are_pending(raw, queue_name, 2))
        with WorkerProcess(redis86_url, queue_name, "sleep:0", engine="chasquimq", claim_min_idle_ms=CLAIM_MS):
            await add(redis86_url, queue_name, "theirs")
            await until(lambda: noted(raw, queue_name, "finished"))
            await asyncio.sleep(LONG_S)
            gate.open()
            await until(lambda: stream_is_empty(raw, queue_name))
            assert await noted(raw, queue_name, "started") == ["theirs"]
    assert gate.finished == gate.started == ["running", "buffered"]


async def _are_pending(raw: Redis, queue_name: str, count: int) -> bool:
    return len(await pending(raw, queue_name)) == count


async def test_entries_stay_young_while_the_loop_is_blocked(redis_url: str, raw: Redis, queue_name: str) -> None:
    """The silence that the server sees stays under the claim, although nothing in the loop can run."""
    idle_ms: list[int] = []

    async def block(job: Job) -> None:
        time.sleep(LONG_S)

    def watch() -> None:
        with redis.Redis.from_url(redis_url) as client:
            end = time.monotonic() + LONG_S
            while time.monotonic() < end:
                entries = client.xpending_range(f"{{chasqui:{queue_name}}}:stream", "default", "-", "+", 10)
                idle_ms.extend(entry["time_since_delivered"] for entry in entries)
                time.sleep(0.01)

    watching = threading.Thread(target=watch)
    async with consuming(redis_url, queue_name, block, claim_min_idle_ms=CLAIM_MS, concurrency=1):
        await until(lambda: _group_is_there(raw, queue_name))
        watching.start()
        await add(redis_url, queue_name, "x")
        await until(lambda: stream_is_empty(raw, queue_name))
    watching.join()
    assert len(idle_ms) > 10
    assert max(idle_ms) < CLAIM_MS
    assert max(idle_ms) >= CLAIM_MS / 6, "beats much oftener than it has to"


async def _group_is_there(raw: Redis, queue_name: str) -> bool:
    return bool(await raw.exists(f"{{chasqui:{queue_name}}}:stream"))


async def test_a_heartbeat_that_fails_goes_on(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Whatever a credential provider raises in its thread: without heartbeats, running jobs are lost one by one."""
    failed: list[str] = []

    def credentials(user: str | None) -> tuple[str, str]:
        if threading.current_thread().name == "chasqui-heartbeat" and len(failed) < 2:
            failed.append("once")
            raise KeyError("no credentials yet")
        return "default", "any password does where none is set"

    gate = Gate()
    stop = asyncio.Event()
    config = ConsumerConfig(queue_name=queue_name, claim_min_idle_ms=CLAIM_MS)
    consumer = Consumer(redis_url, config, credential_provider=credentials)
    run = asyncio.create_task(consumer.run(gate, stop))
    await add(redis_url, queue_name, "x")
    await until(lambda: gate.started)
    await asyncio.sleep(2 * CLAIM_MS / 1000)
    (entry,) = await raw.xpending_range(f"{{chasqui:{queue_name}}}:stream", "default", "-", "+", 10)
    gate.open()
    stop.set()
    await asyncio.wait_for(run, 10)
    assert failed == ["once"] * 2
    assert entry["time_since_delivered"] < CLAIM_MS


async def test_an_entry_read_while_the_loop_was_blocked_runs_once(redis_url: str, raw: Redis, queue_name: str) -> None:
    """A read's reply lies in the socket while a handler blocks the loop: nothing has kept it alive meanwhile.

    Another worker may have it then, and has; the first must not start it as well.
    """
    first: list[Any] = []
    second: list[Any] = []

    async def block(job: Job) -> None:
        first.append(job.payload)
        time.sleep(LONG_S)

    def elsewhere() -> None:
        async def note(job: Job) -> None:
            second.append(job.payload)

        async def run() -> None:
            async with consuming(redis_url, queue_name, note, claim_min_idle_ms=CLAIM_MS):
                await until(lambda: second)

        asyncio.run(run())

    async with consuming(redis_url, queue_name, block, claim_min_idle_ms=CLAIM_MS, concurrency=4, block_ms=5000):
        await until(lambda: _group_is_there(raw, queue_name))
        other = threading.Thread(target=_block_then_add, args=(redis_url, queue_name, elsewhere))
        other.start()
        await add(redis_url, queue_name, "blocks")
        await until(lambda: first)
        await asyncio.to_thread(other.join)
        await until(lambda: stream_is_empty(raw, queue_name))
        assert await pending(raw, queue_name) == {}
    assert (first, second) == (["blocks"], ["taken"])


def _block_then_add(url: str, queue: str, elsewhere: Any) -> None:
    """Adds a second job once the first is running; the blocked worker's read gets it, and only then others come."""
    stream = f"{{chasqui:{queue}}}:stream"
    with redis.Redis.from_url(url) as client:
        _wait_for(lambda: client.xpending(stream, "default")["pending"] == 1)
        time.sleep(0.1)  # so that the first worker's next read is on its way
        asyncio.run(_add(url, queue, "taken"))
        _wait_for(lambda: client.xpending(stream, "default")["pending"] == 2)
    elsewhere()


async def _add(url: str, queue: str, payload: str) -> None:
    await add(url, queue, payload)


def _wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)
