"""Entries of dead workers run again; those of living ones are left alone."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import AddOptions, JobRetryOverride
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import monotonic
from tests.support.consumers import (
    Gate,
    Recorder,
    WorkerProcess,
    add,
    consuming,
    diary,
    noted,
    pending,
    producing,
    steal,
)
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

CLAIM_MS = 400


async def _take_by_hand(raw: Redis, queue: str, consumer: str, count: int) -> list[bytes]:
    """Entries in the hands of a consumer that says no more."""
    stream = QueueKeys(queue).stream
    await raw.xgroup_create(stream, "default", "0", mkstream=True)
    reply = await raw.xreadgroup("default", consumer, {stream: ">"}, count=count)
    return [entry_id for entry_id, _ in reply[0][1]]


async def test_jobs_of_a_killed_worker_run_elsewhere(redis_url: str, raw: Redis, queue_name: str) -> None:
    with WorkerProcess(redis_url, queue_name, "sleep:60", claim_min_idle_ms=CLAIM_MS) as doomed:
        await add(redis_url, queue_name, "a", "b")
        await until(lambda: _both_started(raw, queue_name))
        doomed.kill()
        seen = Recorder()
        async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=CLAIM_MS):
            await until(lambda: sorted(seen.payloads) == ["a", "b"])
            await until(lambda: stream_is_empty(raw, queue_name))
    completed = [event for event in await events_of(raw, queue_name) if event["e"] == "completed"]
    assert [event["attempt"] for event in completed] == ["2", "2"]


async def _both_started(raw: Redis, queue_name: str) -> bool:
    return sorted(await noted(raw, queue_name, "started")) == ["a", "b"]


async def test_an_idle_queue_is_looked_after_too(redis_url: str, raw: Redis, queue_name: str) -> None:
    """The reads block for long, nothing new comes, and the entry grows old only while they block."""
    await add(redis_url, queue_name, "left behind")
    seen = Recorder()
    await _take_by_hand(raw, queue_name, "dead", 1)
    began = monotonic()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=CLAIM_MS, block_ms=8000):
        await until(lambda: seen.payloads == ["left behind"], timeout_s=6)
    assert monotonic() - began >= CLAIM_MS / 1000 * 0.9


async def test_nothing_is_claimed_before_its_time(redis_url: str, raw: Redis, queue_name: str) -> None:
    await add(redis_url, queue_name, "not yet")
    (entry_id,) = await _take_by_hand(raw, queue_name, "quiet", 1)
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=60_000):
        await add(redis_url, queue_name, "new")
        await until(lambda: seen.payloads == ["new"])
        await asyncio.sleep(0.2)
        assert await pending(raw, queue_name) == {entry_id: b"quiet"}
    assert seen.payloads == ["new"]


async def test_dead_entries_behind_many_living_ones_are_found(redis_url: str, raw: Redis, queue_name: str) -> None:
    """A scan for abandoned entries has a length; those in front of it that are alive must not use it up."""
    await add(redis_url, queue_name, *range(60), "dead")
    stream = QueueKeys(queue_name).stream
    alive = (await _take_by_hand(raw, queue_name, "alive", 61))[:-1]
    seen = Recorder()

    async def keep_alive() -> None:
        while True:
            await raw.xclaim(stream, "default", "alive", 0, alive, justid=True)
            await asyncio.sleep(CLAIM_MS / 4000)

    keeping = asyncio.create_task(keep_alive())
    try:
        async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=CLAIM_MS, concurrency=1, batch=1):
            await until(lambda: seen.payloads)
        assert seen.payloads == ["dead"]
    finally:
        keeping.cancel()


async def test_a_job_that_kills_its_workers_ends_in_the_dead_letters(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    (job_id,) = await add(redis_url, queue_name, "bomb")
    settings = {"claim_min_idle_ms": 150, "max_attempts": 2, "read_block_ms": 200, "run_scheduler": False}
    for run in (1, 2):
        with WorkerProcess(redis_url, queue_name, "die", **settings) as victim:
            assert await victim.ended() == -signal.SIGKILL
        assert len(await diary(raw, queue_name)) == run
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=150, max_attempts=2):
        await until(lambda: dead_letters_of(raw, queue_name))
    assert seen.jobs == []
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter["reason"] == b"retries_exhausted"
    assert letter["detail"] == b"no run left after 2; the last worker went silent before it was done"
    last = [event for event in await events_of(raw, queue_name) if event["e"] in ("failed", "dlq")]
    assert [(event["e"], event["id"], event["attempt"]) for event in last] == [
        ("failed", job_id, "2"),
        ("dlq", job_id, "2"),
    ]
    assert "duration_us" not in last[0]


async def test_a_job_with_one_run_that_killed_its_worker_has_had_it(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    async with producing(redis_url, queue_name) as producer:
        await producer.add_with_options("bomb", AddOptions(retry=JobRetryOverride(max_attempts=1)))
    with WorkerProcess(redis_url, queue_name, "die", claim_min_idle_ms=150, run_scheduler=False) as victim:
        assert await victim.ended() == -signal.SIGKILL
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=150):
        (letter,) = await until(lambda: dead_letters_of(raw, queue_name))
    assert seen.jobs == []
    assert letter["detail"] == b"no run left after 1; the last worker went silent before it was done"


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_a_job_that_was_given_out_and_never_begun_runs(
    redis_url: str, raw: Redis, queue_name: str, attempts: int
) -> None:
    """An answer that was lost on its way, or a worker that was killed with a full buffer."""
    async with producing(redis_url, queue_name) as producer:
        await producer.add_with_options("unbegun", AddOptions(retry=JobRetryOverride(max_attempts=attempts)))
    await _take_by_hand(raw, queue_name, "dead", 1)
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=100):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert seen.payloads == ["unbegun"]
    assert await dead_letters_of(raw, queue_name) == []


async def test_of_a_killed_worker_only_what_it_ran_has_lost_its_run(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    settings = {"claim_min_idle_ms": 300, "read_block_ms": 100, "concurrency": 2, "max_attempts": 1}
    await add(redis_url, queue_name, *range(4))
    with WorkerProcess(redis_url, queue_name, "sleep:60", **settings) as doomed:
        await until(lambda: _runs_two_and_has_more(raw, queue_name))
        doomed.kill()
    running = await noted(raw, queue_name, "started")
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=300, max_attempts=1):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sorted([*running, *seen.payloads]) == [0, 1, 2, 3]
    assert len(await dead_letters_of(raw, queue_name)) == len(running) == 2


async def _runs_two_and_has_more(raw: Redis, queue_name: str) -> bool:
    return len(await noted(raw, queue_name, "started")) == 2 and len(await pending(raw, queue_name)) > 2


async def test_a_retry_after_a_reclaim_goes_on_counting(redis_url: str, raw: Redis, queue_name: str) -> None:
    """One run by a dead worker, then failures: three runs in all, not four."""
    await add(redis_url, queue_name, "x")
    await _take_by_hand(raw, queue_name, "dead", 1)
    runs = []

    async def fail(job: object) -> None:
        runs.append(job)
        raise ValueError("no")

    async with consuming(redis_url, queue_name, fail, claim_min_idle_ms=100, max_attempts=3):
        await until(lambda: dead_letters_of(raw, queue_name))
    assert len(runs) == 2


async def test_a_paused_worker_loses_its_jobs_and_then_keeps_off_them(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    """SIGSTOP, as a suspended machine: what it held runs elsewhere; awake again, it starts and ends none of it."""
    settings = {"claim_min_idle_ms": 300, "read_block_ms": 100, "concurrency": 1, "store_results": True}
    # Long enough to be seen at work by a busy machine too: asleep, it needs no more time.
    with WorkerProcess(redis_url, queue_name, "sleep:3", **settings) as paused:
        await add(redis_url, queue_name, "running", "buffered")
        await until(lambda: _has_two_and_runs_one(raw, queue_name))
        paused.pause()
        seen = Recorder()
        async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=300):
            await until(lambda: stream_is_empty(raw, queue_name))
        paused.resume()
        await until(lambda: _finished(raw, queue_name, "running"))
        await add(redis_url, queue_name, "afterwards")
        await until(lambda: _finished(raw, queue_name, "afterwards"))
        await until(lambda: stream_is_empty(raw, queue_name))
        paused.terminate()
        assert await paused.ended() == 0
    assert sorted(seen.payloads) == ["buffered", "running"]
    assert await noted(raw, queue_name, "started") == ["running", "afterwards"]
    completed = [event for event in await events_of(raw, queue_name) if event["e"] == "completed"]
    assert len(completed) == 3


async def _has_two_and_runs_one(raw: Redis, queue_name: str) -> bool:
    return await noted(raw, queue_name, "started") == ["running"] and len(await pending(raw, queue_name)) == 2


async def _finished(raw: Redis, queue_name: str, payload: str) -> bool:
    return payload in await noted(raw, queue_name, "finished")


async def test_a_buffered_job_that_another_claimed_is_not_started(redis_url: str, raw: Redis, queue_name: str) -> None:
    gate = Gate()
    async with consuming(redis_url, queue_name, gate, concurrency=1, claim_min_idle_ms=60_000) as consumer:
        await add(redis_url, queue_name, "running", "buffered")
        entries = await until(lambda: _both_pending(raw, queue_name))
        await until(lambda: gate.started == ["running"])
        await steal(raw, queue_name, [entries[1]])
        await asyncio.sleep(0.3)
        gate.open()
        await until(lambda: gate.finished)
        await add(redis_url, queue_name, "next")
        await until(lambda: "next" in gate.finished)
        await consumer.stop()
    assert gate.started == ["running", "next"]
    assert await pending(raw, queue_name) == {entries[1]: b"thief"}


async def _both_pending(raw: Redis, queue_name: str) -> list[bytes]:
    entries = sorted(await pending(raw, queue_name))
    return entries if len(entries) == 2 else []


@pytest.mark.parametrize("silent_before", [False, True], ids=["first run", "second run"])
async def test_own_entries_that_come_back_are_not_started_again(
    redis_url: str, raw: Redis, queue_name: str, silent_before: bool
) -> None:
    """The server is told that a running job has been silent for long; the claim that follows brings it back to us. It
    has not been given out once more: were this worker to die now, that would cost the job a run."""
    gate = Gate()
    stream = QueueKeys(queue_name).stream
    await add(redis_url, queue_name, "x")
    if silent_before:
        await _take_by_hand(raw, queue_name, "dead", 1)
        await raw.xclaim(stream, "default", "dead", 0, await _entry_ids(raw, queue_name), idle=600_000, justid=True)
    async with consuming(redis_url, queue_name, gate, claim_min_idle_ms=3000, concurrency=2) as consumer:
        await until(lambda: gate.started)
        (entry_id,) = await pending(raw, queue_name)
        for _ in range(3):
            await raw.xclaim(stream, "default", consumer.config.consumer_id, 0, [entry_id], idle=600_000, justid=True)
            await until(lambda: _claimed_again(raw, queue_name))
        await until(lambda: _counted(raw, queue_name, 2 if silent_before else 1))
        assert gate.started == ["x"]
        gate.open()
        await until(lambda: stream_is_empty(raw, queue_name))
    assert gate.finished == ["x"]
    completed = [event for event in await events_of(raw, queue_name) if event["e"] == "completed"]
    assert len(completed) == 1


async def _entry_ids(raw: Redis, queue_name: str) -> list[bytes]:
    return list(await pending(raw, queue_name))


async def _counted(raw: Redis, queue_name: str, count: int) -> bool:
    (entry,) = await raw.xpending_range(QueueKeys(queue_name).stream, "default", "-", "+", 1)
    return bool(entry["times_delivered"] == count)


async def _claimed_again(raw: Redis, queue_name: str) -> bool:
    (entry,) = await raw.xpending_range(QueueKeys(queue_name).stream, "default", "-", "+", 1)
    return int(entry["time_since_delivered"]) < 600_000
