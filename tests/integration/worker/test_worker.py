"""The worker as people type it: its life from construction to the end of `run`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Queue, RedisError, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import monotonic
from tests.support.consumers import Gate, Recorder, add, pending
from tests.support.queues import stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

SETTINGS: dict[str, Any] = {"read_block_ms": 200, "run_scheduler": False, "shutdown_deadline_secs": 5}


async def test_from_start_to_end(redis_url: str, queue_name: str) -> None:
    async def double(job: Any) -> int:
        return int(job.data) * 2

    worker = Worker(queue_name, double, redis_url=redis_url, store_results=True, **SETTINGS)
    assert (worker.name, worker.is_running, worker.is_closed) == (queue_name, False, False)
    run = asyncio.create_task(worker.run())
    async with Queue(queue_name, redis_url=redis_url) as queue:
        assert await (await queue.add("", 21)).wait_for_result(timeout=10) == 42
    assert (worker.is_running, worker.is_closed) == (True, False)
    await worker.close()
    await asyncio.wait_for(run, 5)
    assert (worker.is_running, worker.is_closed) == (False, True)


async def test_it_is_known_to_be_ready_before_its_first_job(redis_url: str, queue_name: str) -> None:
    """Whoever waits for that may start a worker again which could start once, however soon it ends."""
    known: list[bool] = []

    async def look(job: Any) -> None:
        known.append(ready.done())
        worker.stop()

    await add(redis_url, queue_name, 1)
    worker = Worker(queue_name, look, redis_url=redis_url, **SETTINGS)
    ready = asyncio.create_task(worker.wait_until_ready())
    await asyncio.wait_for(worker.run(), 10)
    assert known == [True]


async def test_close_before_run(redis_url: str, raw: Redis, queue_name: str) -> None:
    """`run` comes back at once, and has run nothing."""
    await add(redis_url, queue_name, 1)
    seen = Recorder()
    worker = Worker(queue_name, seen, redis_url=redis_url, **SETTINGS)
    await worker.close()
    assert worker.is_closed
    await asyncio.wait_for(worker.run(), 5)
    assert seen.jobs == []
    assert await raw.xlen(QueueKeys(queue_name).stream) == 1
    assert await pending(raw, queue_name) == {}


async def test_run_twice_at_once_is_one_run(redis_url: str, raw: Redis, queue_name: str) -> None:
    seen = Recorder()
    worker = Worker(queue_name, seen, redis_url=redis_url, **SETTINGS)
    runs = [asyncio.create_task(worker.run()) for _ in range(2)]
    await add(redis_url, queue_name, 1)
    await until(lambda: seen.jobs)
    consumers = await raw.xinfo_consumers(QueueKeys(queue_name).stream, "default")
    assert len(consumers) == 1
    await worker.close()
    await asyncio.wait_for(asyncio.gather(*runs), 5)


async def test_run_again_after_the_end(redis_url: str, queue_name: str) -> None:
    """A closed worker stays closed."""
    seen = Recorder()
    worker = Worker(queue_name, seen, redis_url=redis_url, **SETTINGS)
    run = asyncio.create_task(worker.run())
    await add(redis_url, queue_name, 1)
    await until(lambda: seen.jobs)
    await worker.close()
    await run
    await add(redis_url, queue_name, 2)
    await asyncio.wait_for(worker.run(), 5)
    assert seen.payloads == [1]


async def test_close_twice(redis_url: str, queue_name: str) -> None:
    worker = Worker(queue_name, Recorder(), redis_url=redis_url, **SETTINGS)
    run = asyncio.create_task(worker.run())
    await until(lambda: worker.is_running)
    await worker.close()
    await worker.close()
    await asyncio.wait_for(run, 5)


async def test_cancelling_run_stops_well(redis_url: str, raw: Redis, queue_name: str) -> None:
    """As Ctrl-C in `asyncio.run`: running jobs end, buffered ones go back, the consumer leaves."""
    gate = Gate()
    worker = Worker(queue_name, gate, redis_url=redis_url, concurrency=1, **SETTINGS)
    run = asyncio.create_task(worker.run())
    await add(redis_url, queue_name, "running", "buffered")
    await until(lambda: _are_pending(raw, queue_name, 2))
    await until(lambda: gate.started)
    run.cancel()
    await until(lambda: _are_pending(raw, queue_name, 1))
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 5)
    assert gate.finished == ["running"]
    assert worker.is_closed
    assert not worker.is_running
    assert await raw.xlen(QueueKeys(queue_name).stream) == 1
    assert await raw.xinfo_consumers(QueueKeys(queue_name).stream, "default") == []


async def _are_pending(raw: Redis, queue: str, count: int) -> bool:
    return len(await pending(raw, queue)) == count


async def test_a_timeout_around_run(redis_url: str, raw: Redis, queue_name: str) -> None:
    seen = Recorder()
    await add(redis_url, queue_name, *range(10))
    worker = Worker(queue_name, seen, redis_url=redis_url, **SETTINGS)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await worker.run()
    assert sorted(seen.payloads) == list(range(10))
    assert await stream_is_empty(raw, queue_name)


async def test_the_context_manager_closes(redis_url: str, queue_name: str) -> None:
    async with Worker(queue_name, Recorder(), redis_url=redis_url, **SETTINGS) as worker:
        run = asyncio.create_task(worker.run())
        await until(lambda: worker.is_running)
    assert worker.is_closed
    await asyncio.wait_for(run, 5)


async def test_no_server_is_said_soon(queue_name: str) -> None:
    worker = Worker(queue_name, Recorder(), redis_url="redis://:secret@127.0.0.1:1", **SETTINGS)
    began = monotonic()
    with pytest.raises(RedisError, match=r"127\.0\.0\.1:1") as caught:
        await worker.run()
    assert "secret" not in str(caught.value)
    assert monotonic() - began < 10
    assert not worker.is_running


async def test_consumer_id_and_group_are_what_was_asked_for(redis_url: str, raw: Redis, queue_name: str) -> None:
    gate = Gate()
    worker = Worker(queue_name, gate, redis_url=redis_url, group="mine", consumer_id="me", **SETTINGS)
    run = asyncio.create_task(worker.run())
    await add(redis_url, queue_name, 1)
    await until(lambda: gate.started)
    assert set((await pending(raw, queue_name, "mine")).values()) == {b"me"}
    gate.open()
    await worker.close()
    await run


@pytest.mark.parametrize(("ttl_ms", "low", "high"), [(1, 1, 1), (1500, 1, 2), (60_000, 55, 60)])
async def test_the_time_to_live_of_results(
    redis_url: str, raw: Redis, queue_name: str, ttl_ms: int, low: int, high: int
) -> None:
    """In milliseconds here, in whole seconds in Redis: never less than asked for."""

    async def handler(job: Any) -> int:
        return 1

    worker = Worker(queue_name, handler, redis_url=redis_url, store_results=True, result_ttl_ms=ttl_ms, **SETTINGS)
    run = asyncio.create_task(worker.run())
    (job_id,) = await add(redis_url, queue_name, 1)
    key = QueueKeys(queue_name).result(job_id)
    ttl = await until(lambda: _ttl(raw, key))
    assert low * 1000 - 500 <= ttl <= high * 1000
    await worker.close()
    await run


async def _ttl(raw: Redis, key: str) -> int:
    return max(0, await raw.pttl(key))


@pytest.mark.parametrize("ttl_ms", [0, -1, True, 1.5, "1"])
async def test_a_time_to_live_that_makes_no_sense(ttl_ms: Any) -> None:
    with pytest.raises(ConfigError, match="result_ttl_ms"):
        Worker("q", Recorder(), result_ttl_ms=ttl_ms)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("concurrency", 0),
        ("max_attempts", 0),
        ("read_block_ms", 0),
        ("read_count", 0),
        ("claim_min_idle_ms", 0),
        ("max_payload_bytes", 0),
        ("shutdown_deadline_secs", -1),
        ("time_limit_secs", -1),
        ("run_plain_in", "cloud"),
        ("group", ""),
        ("consumer_id", "{x}"),
    ],
)
async def test_settings_out_of_range_are_named(setting: str, value: Any) -> None:
    field = {"read_block_ms": "block_ms", "read_count": "batch"}.get(setting, setting)
    with pytest.raises(ConfigError, match=field):
        Worker("q", Recorder(), **{setting: value})
