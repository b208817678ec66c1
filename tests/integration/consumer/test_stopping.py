"""After the signal: nothing new starts, what runs gets the deadline and no more, the rest is for others at once."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import monotonic
from tests.support.consumers import (
    Gate,
    Recorder,
    WorkerProcess,
    add,
    consuming,
    noted,
    pending,
    producing,
)
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


async def _consumers(raw: Redis, queue: str) -> list[bytes]:
    return [one["name"] for one in await raw.xinfo_consumers(QueueKeys(queue).stream, "default")]


async def test_running_jobs_end_and_buffered_ones_go_back(redis_url: str, raw: Redis, queue_name: str) -> None:
    gate = Gate()
    async with consuming(redis_url, queue_name, gate, concurrency=2, store_results=True) as consumer:
        ids = await add(redis_url, queue_name, *range(6))
        await until(lambda: _more_are_pending(raw, queue_name, 2))
        await until(lambda: len(gate.started) == 2)
        consumer.shutdown.set()
        await until(lambda: _are_pending(raw, queue_name, 2))  # handed back at once, while others still run
        assert len(gate.started) == 2
        gate.open()
        await consumer.stop()
    assert gate.started == gate.finished == [0, 1]
    assert await raw.xlen(QueueKeys(queue_name).stream) == 4
    assert await pending(raw, queue_name) == {}
    assert await _consumers(raw, queue_name) == []
    results = [await raw.get(QueueKeys(queue_name).result(job_id)) for job_id in ids]
    assert results == [b"\x00", b"\x01", None, None, None, None]
    others = Recorder()
    async with consuming(redis_url, queue_name, others, claim_min_idle_ms=60_000):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sorted(others.payloads) == [2, 3, 4, 5]
    assert {job.attempt for job in others.jobs} == {0}


async def _are_pending(raw: Redis, queue: str, count: int) -> bool:
    return len(await pending(raw, queue)) == count


async def _more_are_pending(raw: Redis, queue: str, count: int) -> bool:
    return len(await pending(raw, queue)) > count


async def test_what_goes_back_is_unchanged(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Envelope, name and fields that this release does not know."""
    gate = Gate()
    stream = QueueKeys(queue_name).stream
    async with consuming(redis_url, queue_name, gate, concurrency=1) as consumer:
        async with producing(redis_url, queue_name) as producer:
            await producer.add("running")
        await until(lambda: gate.started)
        async with producing(redis_url, queue_name) as producer:
            await producer.add({"k": "v"}, name="näme")
        (entry_id, fields) = (await raw.xrange(stream))[-1]
        await raw.xdel(stream, entry_id)
        await raw.xadd(stream, {**fields, b"later": b"field"})
        await until(lambda: _are_pending(raw, queue_name, 2))
        gate.open()
        await consumer.stop()
    ((_, kept),) = await raw.xrange(stream)
    assert kept == {**fields, b"later": b"field"}


@pytest.mark.parametrize("signal_in", ["first", "middle"])
async def test_no_job_starts_after_the_signal(redis_url: str, raw: Redis, queue_name: str, signal_in: str) -> None:
    """Handlers that never wait keep the loop to themselves: the signal is seen between two of them all the same."""
    shutdown: list[asyncio.Event] = []
    started: list[int] = []
    last = 0 if signal_in == "first" else 10

    async def handler(job: Job) -> None:
        started.append(job.payload)
        if job.payload == last:
            shutdown[0].set()

    await add(redis_url, queue_name, *range(40))
    async with consuming(redis_url, queue_name, handler) as consumer:
        shutdown.append(consumer.shutdown)
        await until(consumer.task.done)
    assert started == list(range(last + 1))
    assert await raw.xlen(QueueKeys(queue_name).stream) == 40 - len(started)


async def test_no_job_starts_while_its_owner_is_being_asked_for(redis_url: str, raw: Redis, queue_name: str) -> None:
    """A buffered job whose turn comes with the signal: the loop is blocked, so both are seen at once."""
    started: list[Any] = []

    async def handler(job: Job) -> None:
        started.append(job.payload)
        await asyncio.sleep(0.3)
        if job.payload == "first":
            consumer.shutdown.set()

    async with consuming(redis_url, queue_name, handler, concurrency=1, claim_min_idle_ms=150) as consumer:
        await add(redis_url, queue_name, "first", "second")
        await until(lambda: started)
        await consumer.stop()
    assert started == ["first"]
    assert await raw.xlen(QueueKeys(queue_name).stream) == 1


async def test_an_async_job_past_the_deadline_goes_back(redis_url: str, raw: Redis, queue_name: str) -> None:
    started = asyncio.Event()
    cancelled = asyncio.Event()

    async def handler(job: Job) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with consuming(redis_url, queue_name, handler, shutdown_deadline_secs=0.3) as consumer:
        await add(redis_url, queue_name, "long")
        await until(started.is_set)
        began = monotonic()
        await consumer.stop()
    assert 0.25 <= monotonic() - began < 2
    assert cancelled.is_set()
    await _is_whole_again(raw, queue_name)


async def test_a_thread_past_the_deadline_is_left_behind(redis_url: str, raw: Redis, queue_name: str) -> None:
    started = threading.Event()
    release = threading.Event()

    def handler(job: Job) -> None:
        started.set()
        release.wait(20)

    async with consuming(redis_url, queue_name, handler, shutdown_deadline_secs=0.3) as consumer:
        await add(redis_url, queue_name, "long")
        await until(started.is_set)
        began = monotonic()
        await consumer.stop()
        took_s = monotonic() - began
        release.set()
    assert 0.25 <= took_s < 2
    await _is_whole_again(raw, queue_name)


async def test_a_job_that_shrugs_off_its_cancellation_is_left_behind(
    redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends later, and then has nothing to say: its entry is another's."""
    started = asyncio.Event()
    shrugged = asyncio.Event()
    release = asyncio.Event()
    ended = asyncio.Event()

    async def handler(job: Job) -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                shrugged.set()
        ended.set()

    async with consuming(redis_url, queue_name, handler, shutdown_deadline_secs=0.2) as consumer:
        await add(redis_url, queue_name, "stubborn")
        await until(started.is_set)
        began = monotonic()
        await consumer.stop()
        took_s = monotonic() - began
    assert shrugged.is_set()
    assert took_s < 4
    await _is_whole_again(raw, queue_name)
    release.set()
    await ended.wait()
    await asyncio.sleep(0.05)
    gc.collect()  # an error that nobody looked at is told when it is collected
    await _is_whole_again(raw, queue_name)
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def _is_whole_again(raw: Redis, queue: str) -> None:
    """The job is on the stream, nobody's, with no run counted; the consumer is gone."""
    assert await raw.xlen(QueueKeys(queue).stream) == 1
    assert await pending(raw, queue) == {}
    assert await _consumers(raw, queue) == []
    assert await dead_letters_of(raw, queue) == []
    assert {event["e"] for event in await events_of(raw, queue)} == {"active"}


async def test_a_deadline_of_zero_stops_at_once(redis_url: str, raw: Redis, queue_name: str) -> None:
    gate = Gate()
    async with consuming(redis_url, queue_name, gate, shutdown_deadline_secs=0) as consumer:
        await add(redis_url, queue_name, 1)
        await until(lambda: gate.started)
        began = monotonic()
        await consumer.stop()
    assert monotonic() - began < 2
    await _is_whole_again(raw, queue_name)


async def test_acks_are_flushed(redis_url: str, raw: Redis, queue_name: str) -> None:
    """The signal comes in the turn of the loop in which jobs end: their acks still arrive."""
    seen: list[int] = []

    async def handler(job: Job) -> int:
        seen.append(job.payload)
        if len(seen) == 50:
            consumer.shutdown.set()
        return job.payload

    ids = await add(redis_url, queue_name, *range(50))
    async with consuming(
        redis_url, queue_name, handler, store_results=True, ack_idle_ms=10_000, ack_batch=5_000
    ) as consumer:
        await until(lambda: len(seen) == 50)
        await consumer.stop()
    assert await stream_is_empty(raw, queue_name)
    keys = QueueKeys(queue_name)
    assert all(await raw.mget([keys.result(job_id) for job_id in ids]))


async def test_failures_are_flushed(redis_url: str, raw: Redis, queue_name: str) -> None:
    seen: list[int] = []

    async def handler(job: Job) -> None:
        seen.append(job.payload)
        if len(seen) == 20:
            consumer.shutdown.set()
        raise ValueError("no")

    async with producing(redis_url, queue_name) as producer:
        await producer.add_bulk(range(20))
    async with consuming(redis_url, queue_name, handler, max_attempts=1, dlq_inflight=1000) as consumer:
        await until(lambda: len(seen) == 20)
        await consumer.stop()
    assert len(await dead_letters_of(raw, queue_name)) == 20
    assert await stream_is_empty(raw, queue_name)


async def test_the_process_ends_although_a_thread_is_busy(redis_url: str, raw: Redis, queue_name: str) -> None:
    with WorkerProcess(redis_url, queue_name, "thread:40", shutdown_deadline_secs=0.5) as worker:
        await add(redis_url, queue_name, "x")
        await until(lambda: noted(raw, queue_name, "started"))
        began = monotonic()
        worker.terminate()
        assert await worker.ended() == 0
    assert 0.4 <= monotonic() - began < 5
    await _is_whole_again(raw, queue_name)


async def test_the_process_ends_although_a_pool_process_is_busy(redis_url: str, raw: Redis, queue_name: str) -> None:
    settings = {"shutdown_deadline_secs": 0.5, "run_plain_in": "process", "concurrency": 2}
    with WorkerProcess(redis_url, queue_name, "process", **settings) as worker:
        await add(redis_url, queue_name, 0)
        await until(lambda: _completed(raw, queue_name))
        await add(redis_url, queue_name, 40)
        await until(lambda: _are_pending(raw, queue_name, 1))
        await asyncio.sleep(0.2)
        began = monotonic()
        worker.terminate()
        assert await worker.ended() == 0
    assert 0.4 <= monotonic() - began < 5
    assert await raw.xlen(QueueKeys(queue_name).stream) == 1
    assert await pending(raw, queue_name) == {}


async def _completed(raw: Redis, queue: str) -> bool:
    return any(event["e"] == "completed" for event in await events_of(raw, queue))


async def test_stopping_does_not_wait_for_a_blocking_read(redis_url: str, queue_name: str, raw: Redis) -> None:
    async with consuming(redis_url, queue_name, Recorder(), block_ms=30_000) as consumer:
        await until(lambda: _group_is_there(raw, queue_name))
        began = monotonic()
        await consumer.stop()
    assert monotonic() - began < 2


async def _group_is_there(raw: Redis, queue: str) -> bool:
    return bool(await raw.exists(QueueKeys(queue).stream))


async def test_a_job_that_arrives_with_the_signal_is_not_lost(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Adds race with the end of the reads; whatever the server gave the dying connection comes back."""
    seen = Recorder()
    added: list[str] = []

    async def keep_adding() -> None:
        async with producing(redis_url, queue_name) as producer:
            while True:
                added.append(await producer.add(len(added)))

    adding = asyncio.create_task(keep_adding())
    for _ in range(5):
        async with consuming(redis_url, queue_name, seen) as consumer:
            await asyncio.sleep(0.05)
            await consumer.stop()
    adding.cancel()
    await asyncio.wait([adding])
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=500):
        await until(lambda: stream_is_empty(raw, queue_name))
    ran = [job.id for job in seen.jobs]
    assert len(ran) == len(set(ran))
    assert set(added) <= set(ran)


async def test_retries_and_burials_of_the_last_moment_get_their_time(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    """A job that fails just within the deadline is put off, not left in our name."""
    started = asyncio.Event()

    async def handler(job: Job) -> None:
        started.set()
        await asyncio.sleep(0.2)
        raise ValueError("late")

    async with consuming(
        redis_url, queue_name, handler, shutdown_deadline_secs=0.6, delayed_enabled=False, max_attempts=5
    ) as consumer:
        await add(redis_url, queue_name, 1)
        await until(started.is_set)
        await consumer.stop()
    assert await stream_is_empty(raw, queue_name)
    assert await raw.zcard(QueueKeys(queue_name).delayed) == 1
