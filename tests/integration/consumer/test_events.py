"""The events stream, field for field, as the wire document has it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chasqui_engine import AddOptions, Queue, RetryConfig, UnrecoverableError
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.consumers import Gate, Recorder, add, consuming, producing
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


async def _told(raw: Redis, queue: str) -> list[tuple[str, ...]]:
    """Each event as (kind, its other fields in order), durations only as being numbers."""
    out = []
    for event in await events_of(raw, queue):
        if "duration_us" in event:
            assert int(event["duration_us"]) >= 0
            event["duration_us"] = "…"
            assert event.pop("worker")
        out.append(tuple(f"{key}={value}" for key, value in event.items()))
    return out


async def test_a_job_that_runs_well(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with consuming(redis_url, queue_name, Recorder()):
        (job_id,) = await add(redis_url, queue_name, 1)
        await until(lambda: _has(raw, queue_name, "drained"))
    assert await _told(raw, queue_name) == [
        ("e=active", f"id={job_id}", "attempt=1"),
        ("e=completed", f"id={job_id}", "attempt=1", "duration_us=…"),
        ("e=drained", "id="),
    ]


async def _has(raw: Redis, queue: str, kind: str) -> bool:
    return any(event["e"] == kind for event in await events_of(raw, queue))


async def test_a_named_job_that_fails_and_then_dies(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        raise ValueError("boom")

    async with consuming(redis_url, queue_name, handler, max_attempts=2):
        async with producing(redis_url, queue_name) as producer:
            await producer.add_with_options(1, AddOptions(id="j", name="näme"))
        await until(lambda: dead_letters_of(raw, queue_name))
    start = ("id=j", "n=näme")
    assert await _told(raw, queue_name) == [
        ("e=active", *start, "attempt=1"),
        ("e=failed", *start, "attempt=1", "reason=boom", "duration_us=…", "error_type=ValueError"),
        ("e=retry-scheduled", *start, "attempt=2", "backoff_ms=5", "error_type=ValueError"),
        ("e=drained", "id="),
        ("e=waiting", *start),
        ("e=active", *start, "attempt=2"),
        ("e=failed", *start, "attempt=2", "reason=boom", "duration_us=…", "error_type=ValueError"),
        ("e=dlq", *start, "attempt=2", "reason=retries_exhausted"),
        ("e=drained", "id="),
    ]


async def test_an_unrecoverable_job(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        raise UnrecoverableError("never")

    async with consuming(redis_url, queue_name, handler):
        (job_id,) = await add(redis_url, queue_name, 1)
        await until(lambda: dead_letters_of(raw, queue_name))
    assert (await _told(raw, queue_name))[1:3] == [
        ("e=failed", f"id={job_id}", "attempt=1", "reason=never", "duration_us=…", "error_type=UnrecoverableError"),
        ("e=dlq", f"id={job_id}", "attempt=1", "reason=unrecoverable"),
    ]


async def test_an_entry_without_a_job(redis_url: str, raw: Redis, queue_name: str) -> None:
    await raw.xadd(QueueKeys(queue_name).stream, {"x": "y"})
    async with consuming(redis_url, queue_name, Recorder()):
        await until(lambda: dead_letters_of(raw, queue_name))
    assert await _told(raw, queue_name) == [
        ("e=failed", "id=", "attempt=0", "reason=the entry has no field 'd'"),
        ("e=dlq", "id=", "attempt=0", "reason=malformed"),
        ("e=drained", "id="),
    ]


async def test_times_are_the_servers(redis_url: str, raw: Redis, queue_name: str) -> None:
    before = await raw.time()
    async with consuming(redis_url, queue_name, Recorder()):
        await add(redis_url, queue_name, 1)
        await until(lambda: _has(raw, queue_name, "drained"))
    after = await raw.time()
    times = [int(fields[b"ts"]) for _, fields in await raw.xrange(QueueKeys(queue_name).events)]
    low, high = (seconds * 1000 + micros // 1000 for seconds, micros in (before, after))
    assert low <= times[0] <= times[-1] <= high
    assert times == sorted(times)


async def test_every_job_is_active_before_it_is_anything_else(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Quick and slow ones, failing and not, many at a time."""

    async def handler(job: Job) -> None:
        if job.payload % 3 == 0:
            await asyncio.sleep(0.001 * (job.payload % 5))
        if job.payload % 7 == 0:
            raise UnrecoverableError("no")

    async with consuming(redis_url, queue_name, handler):
        ids = await add(redis_url, queue_name, *range(700))
        await until(lambda: stream_is_empty(raw, queue_name))
    by_job: dict[str, list[str]] = {}
    for event in await events_of(raw, queue_name):
        by_job.setdefault(event["id"], []).append(event["e"])
    died, ran = ["active", "failed", "dlq"], ["active", "completed"]
    expected = {job_id: died if n % 7 == 0 else ran for n, job_id in enumerate(ids)}
    assert {job_id: kinds for job_id, kinds in by_job.items() if job_id} == expected


async def test_active_says_when_the_job_was_added_to_the_stream(redis_url: str, raw: Redis, queue_name: str) -> None:
    """By the id of its entry: also when it waits for a retry in between, or comes back from the dead letters."""
    keys = QueueKeys(queue_name)
    added: list[int] = []

    async def handler(job: Job) -> None:
        [(entry_id, _)] = await raw.xrange(keys.stream)
        added.append(int(entry_id.partition(b"-")[0]))
        if len(added) < 3:
            raise ValueError("not yet")

    retry = RetryConfig(initial_backoff_ms=20, jitter_ms=0)
    async with consuming(redis_url, queue_name, handler, retry=retry, max_attempts=2):
        await add(redis_url, queue_name, "n")
        await until(lambda: raw.xlen(keys.dlq))
        async with Queue(queue_name, redis_url=redis_url) as queue:
            assert await queue.replay_dlq() == 1
        await until(lambda: _has(raw, queue_name, "completed"))
    events = [fields for _, fields in await raw.xrange(keys.events)]
    said = [int(fields[b"enqueued_at_ms"]) for fields in events if fields[b"e"] == b"active"]
    assert said == added
    assert said == sorted(set(said)), "each entry has a time of its own"


async def test_drained_is_told_once_per_change(redis_url: str, raw: Redis, queue_name: str) -> None:
    gate = Gate()
    async with consuming(redis_url, queue_name, gate):
        await add(redis_url, queue_name, *range(20))
        await until(lambda: len(gate.started) == 20)
        assert not await _has(raw, queue_name, "drained")
        gate.open()
        await until(lambda: _drained(raw, queue_name, 1))
        await add(redis_url, queue_name, "more")
        await until(lambda: _drained(raw, queue_name, 2))
        await asyncio.sleep(0.1)
        assert await _drained(raw, queue_name, 2)


async def _drained(raw: Redis, queue: str, count: int) -> bool:
    return sum(event["e"] == "drained" for event in await events_of(raw, queue)) == count


async def test_nothing_is_told_with_events_off(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> Any:
        if job.payload == "dies":
            raise UnrecoverableError("no")
        if job.attempt == 0:
            raise ValueError("again")

    async with consuming(redis_url, queue_name, handler, events_enabled=False, store_results=True):
        (_, job_id) = await add(redis_url, queue_name, "dies", "retries")
        await until(lambda: raw.exists(QueueKeys(queue_name).result(job_id)))
    assert await raw.exists(QueueKeys(queue_name).events) == 0
    assert len(await dead_letters_of(raw, queue_name)) == 1


async def test_the_events_have_a_limit(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with consuming(redis_url, queue_name, Recorder(), events_max_stream_len=100):
        await add(redis_url, queue_name, *range(1000))
        await until(lambda: stream_is_empty(raw, queue_name))
    assert 100 <= await raw.xlen(QueueKeys(queue_name).events) < 400
