"""Servers that are killed, emptied, frozen or full, under load."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import redis.asyncio

from chasqui_engine import Job, Queue, RedisError, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.servers import ServerProcess
from tests.support.faults.fleet import EMPTY, left_over
from tests.support.faults.outages import ALWAYS, Recorder, add_accepted, outage
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

QUEUE = "faults"


@pytest.fixture
def server(server_kind: str, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    if server_kind == "given":
        pytest.skip("breaks its server, so it needs one of its own")
    with ServerProcess(server_kind, getattr(request, "param", ())) as server:
        yield server


@pytest.fixture
async def recorder(server: ServerProcess) -> AsyncIterator[Recorder]:
    """A worker at work on the server."""
    recorder = Recorder()
    worker = Worker(QUEUE, recorder, redis_url=server.url, claim_min_idle_ms=1000, read_block_ms=500)
    running = asyncio.create_task(worker.run())
    yield recorder
    await worker.close()
    await asyncio.wait_for(running, 20)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("server", [ALWAYS], indirect=True)
async def test_nothing_accepted_is_lost_when_the_server_is_killed(server: ServerProcess) -> None:
    result = await outage(server, QUEUE, server.kill, 2, jobs=500)
    print(result)
    assert result.lost == 0
    assert result.again <= 100
    assert result.back_s < 10


async def test_work_goes_on_after_everything_was_flushed(
    server: ServerProcess, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async with Queue(QUEUE, redis_url=server.url) as queue, redis.asyncio.Redis.from_url(server.url) as raw:
        await queue.add("n", 0)
        await until(lambda: recorder.runs[0])
        await raw.flushall()
        for n in range(1, 101):
            await queue.add("n", n)
        await until(lambda: len(recorder.runs) == 101)
    assert "was created again" in caplog.text


async def test_work_goes_on_after_a_restart_without_persistence(
    server: ServerProcess, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async with Queue(QUEUE, redis_url=server.url) as queue:
        await queue.add("n", 0)
        await until(lambda: recorder.runs[0])
        server.kill()
        server.start()
        await add_accepted(queue, range(1, 101))
        await until(lambda: len(recorder.runs) == 101)
    assert "was created again" in caplog.text


async def test_work_goes_on_after_the_consumer_and_the_group_were_deleted_by_hand(
    server: ServerProcess, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    stream = QueueKeys(QUEUE).stream
    async with Queue(QUEUE, redis_url=server.url) as queue, redis.asyncio.Redis.from_url(server.url) as raw:
        await queue.add("n", 0)
        await until(lambda: recorder.runs[0])
        (consumer,) = await raw.xinfo_consumers(stream, "default")
        await raw.xgroup_delconsumer(stream, "default", consumer["name"])
        await queue.add("n", 1)
        await until(lambda: recorder.runs[1])
        await raw.xgroup_destroy(stream, "default")
        await queue.add("n", 2)
        await until(lambda: recorder.runs[2])
    assert "was created again" in caplog.text


@pytest.mark.parametrize("what", ["consumer", "group"])
async def test_nothing_is_lost_when_either_is_deleted_under_load(
    server: ServerProcess, recorder: Recorder, what: str
) -> None:
    stream, jobs, deletions, held = QueueKeys(QUEUE).stream, 20_000, 5, 0
    async with Queue(QUEUE, redis_url=server.url) as queue, redis.asyncio.Redis.from_url(server.url) as raw:
        await queue.add_bulk([{"name": "n", "data": n} for n in range(jobs)])
        for deletion in range(1, deletions + 1):
            await until(lambda: len(recorder.runs) > deletion * jobs // 10)  # noqa: B023
            if what == "consumer":
                (consumer,) = await until(lambda: raw.xinfo_consumers(stream, "default"))
                held += await raw.xgroup_delconsumer(stream, "default", consumer["name"])
            else:
                await raw.xgroup_destroy(stream, "default")
        await until(lambda: len(recorder.runs) == jobs)
        await until(lambda: _nothing_left(queue))
    again = recorder.runs.total() - jobs
    print(f"{jobs} jobs, {deletions} times the {what}: {again} begun again")
    assert again == 0, "the one worker that there is knows what it holds, whatever the server has forgotten"
    assert held or what == "group"


async def test_a_frozen_server_is_waited_for(server: ServerProcess, recorder: Recorder) -> None:
    async with Queue(QUEUE, redis_url=server.url) as queue:
        await queue.add_bulk([{"name": "n", "data": n} for n in range(500)])
        await until(lambda: recorder.runs)
        server.pause()
        await asyncio.sleep(1.5)
        server.resume()
        await until(lambda: len(recorder.runs) == 500)
        await until(lambda: _nothing_left(queue))
    assert set(recorder.runs.values()) == {1}


async def _nothing_left(queue: Queue) -> bool:
    counts = await queue.counts()
    return counts.waiting + counts.active == 0


async def fill(queue: Queue) -> tuple[int, str]:
    """Adds until the server refuses; returns how many it took, and what it said."""
    accepted = 0
    while True:
        try:
            await queue.add_bulk([{"name": "n", "data": "x" * 1000}] * 100)
        except RedisError as err:
            return accepted, str(err)
        accepted += 100


async def test_a_full_server_refuses_producers_clearly_while_workers_drain_it(server: ServerProcess) -> None:
    runs: Counter[str] = Counter()

    async def work(job: Job) -> None:
        runs[job.id] += 1
        if len(runs) % 10 == 0 and runs[job.id] == 1:
            raise ValueError("retries must get through as well")

    async with Queue(QUEUE, redis_url=server.url) as queue, redis.asyncio.Redis.from_url(server.url) as raw:
        used = (await raw.info("memory"))["used_memory"]
        await raw.config_set("maxmemory", used + 4_000_000)
        accepted, refusal = await fill(queue)
        assert refusal.startswith("[CMQ-001] OOM")
        worker = Worker(QUEUE, work, redis_url=server.url)
        running = asyncio.create_task(worker.run())
        await until(lambda: _drained(raw), timeout_s=20)
        assert len(runs) == accepted
        await queue.add("n", 1)  # there is room again, without anybody's doing
        await until(lambda: len(runs) == accepted + 1)
        await worker.close()
        await running


async def _drained(raw: redis.asyncio.Redis) -> bool:
    return await left_over(raw, QUEUE) == EMPTY
