"""Aborting a job: one that has not begun is taken away; one that runs is stopped, and that is confirmed."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, JobAbortedError, JobFailedError, JobState, Queue, SyncQueue, Worker
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.integration.consumer.execution.process_handlers import act
from tests.support.consumers import Gate, Recorder, WorkerProcess, consuming, diary, noted, pending
from tests.support.queues import dead_letters_of, delayed_jobs, events_of, keys_of, stream_is_empty, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

HOUR_MS = 3_600_000


class Sleeper:
    """A handler that sleeps until it is cancelled, and says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.cancelled: list[str] = []

    async def __call__(self, job: Job) -> str:
        self.begun.append(job.id)
        if job.name == "quick":
            return "done"
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.append(job.id)
            raise
        return "slept"


async def ends_as_aborted(queue: Queue, job_id: str) -> JobAbortedError:
    with pytest.raises(JobAbortedError) as raised:
        await queue.wait_for_result(job_id, timeout=10)
    return raised.value


async def kinds_of_events(raw: Redis, queue: Queue, job_id: str) -> list[str]:
    return [event["e"] for event in await events_of(raw, queue.name) if event["id"] == job_id]


# --- before it begins ---


async def test_a_waiting_job_is_removed_and_its_waiters_are_told(queue: Queue, raw: Redis) -> None:
    await queue.add("mail", 1, job_id="own", headers={"a": "b"})
    waiting = asyncio.create_task(ends_as_aborted(queue, "own"))
    assert await queue.abort("own") == "removed"
    error = await waiting
    assert str(error) == "[CMQ-302] job own was aborted before it ran"
    assert (error.reason, error.detail, error.attempt) == ("aborted", None, 0)
    assert isinstance(error, JobFailedError)
    assert await events_of(raw, queue.name) == [
        {"e": "aborted", "id": "own", "n": "mail", "attempt": "1"},
        {"e": "drained", "id": ""},
    ]
    assert (await queue.get_job("own")).state is JobState.ABORTED
    assert await queue.abort("own") == "gone"
    keys = QueueKeys(queue.name)
    assert await keys_of(raw, queue.name) == {keys.stream, keys.events, keys.failure("own"), keys.uses}


async def test_the_id_of_an_aborted_job_is_free_for_another(queue: Queue, redis_url: str) -> None:
    await queue.add("n", 1, job_id="own")
    assert await queue.abort("own") == "removed"
    await queue.add("n", 2, job_id="own")
    assert queue.added == 2
    async with consuming(redis_url, queue.name, handler := Recorder(), store_results=True):
        assert await queue.wait_for_result("own", timeout=10) is None
    assert handler.payloads == [2]


@pytest.mark.parametrize("job_id", ["own", None])
async def test_a_delayed_job_is_removed(queue: Queue, raw: Redis, job_id: str | None) -> None:
    job = await queue.add("n", 1, job_id=job_id, delay_ms=HOUR_MS)
    other = await queue.add("n", 2, delay_ms=HOUR_MS)
    assert await queue.abort(job.id) == "removed"
    await ends_as_aborted(queue, job.id)
    assert [left.id for left, _ in await delayed_jobs(raw, queue.name)] == [other.id]
    assert not await raw.exists(QueueKeys(queue.name).taken(job.id), QueueKeys(queue.name).delayed_index(job.id))


async def test_a_job_that_waits_for_its_retry_is_removed(queue: Queue, redis_url: str, raw: Redis) -> None:
    async def fail(job: Job) -> None:
        raise ValueError("no")

    job = await queue.add("n", 1, backoff=HOUR_MS)
    async with consuming(redis_url, queue.name, fail):
        await until(lambda: delayed_jobs(raw, queue.name))
        assert await queue.abort(job.id) == "removed"
    assert (await ends_as_aborted(queue, job.id)).attempt == 1


async def test_only_the_job_that_is_meant_is_removed(queue: Queue, redis_url: str) -> None:
    jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(1500)])
    assert await queue.abort(jobs[1200].id) == "removed"
    async with consuming(redis_url, queue.name, handler := Recorder()):
        await until(lambda: len(handler.jobs) == 1499)
    assert 1200 not in handler.payloads


async def test_what_is_unknown_or_has_ended_is_gone(queue: Queue, redis_url: str) -> None:
    assert await queue.abort("unheard of") == "gone"
    job = await queue.add("quick", 1)
    async with consuming(redis_url, queue.name, Sleeper(), store_results=True):
        assert await job.wait_for_result(timeout=10) == "done"
    assert await queue.abort(job.id) == "gone"
    assert await queue.get_job_result(job.id) == "done"


@pytest.mark.parametrize("timeout", [-1, "5", True])
async def test_a_bad_timeout_is_refused(queue: Queue, timeout: Any) -> None:
    with pytest.raises(ConfigError, match="timeout must be a positive number of seconds"):
        await queue.abort("a", timeout=timeout)


def test_it_works_without_asyncio(redis_url: str, queue_name: str) -> None:
    with SyncQueue(queue_name, redis_url=redis_url) as queue:
        assert queue.abort(queue.add("n", 1).id, timeout=1) == "removed"


# --- while it runs ---


async def test_a_running_handler_is_cancelled_and_its_job_ends_as_aborted(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    handler = Sleeper()
    job = await queue.add("n", 1, job_id="own", headers={"a": "b"})
    async with consuming(redis_url, queue.name, handler, concurrency=2, store_results=True):
        await until(lambda: handler.begun)
        waiting = asyncio.create_task(ends_as_aborted(queue, job.id))
        assert await queue.abort(job.id, timeout=20) == "aborted"
        assert handler.cancelled == ["own"]
        assert str(await waiting) == "[CMQ-302] job own was aborted after 1 run(s)"
        assert await stream_is_empty(raw, queue.name)
        assert await delayed_jobs(raw, queue.name) == []
        assert await dead_letters_of(raw, queue.name) == []
        assert await kinds_of_events(raw, queue, "own") == ["active", "failed", "aborted"]
        assert not await raw.exists(QueueKeys(queue.name).aborts, QueueKeys(queue.name).taken("own"))
        # The tasks of the worker go on.
        quick = [await queue.add("quick", 1) for _ in range(4)]
        assert [await one.wait_for_result(timeout=10) for one in quick] == ["done"] * 4


async def test_a_job_that_was_read_and_has_not_begun_never_begins(queue: Queue, redis_url: str, raw: Redis) -> None:
    handler = Gate()
    async with consuming(redis_url, queue.name, handler, concurrency=1):
        jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(2)])
        await until(lambda: _is_in_flight(raw, queue, 2))
        assert await queue.abort(jobs[1].id, timeout=20) == "aborted"
        assert (await ends_as_aborted(queue, jobs[1].id)).attempt == 0
        handler.open()
        await until(lambda: stream_is_empty(raw, queue.name))
    assert handler.started == [0]


async def _is_in_flight(raw: Redis, queue: Queue, count: int) -> bool:
    return len(await pending(raw, queue.name)) == count


async def test_a_handler_that_makes_another_error_of_its_cancellation_is_not_retried(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    runs = []

    async def convert(job: Job) -> None:
        runs.append(job.attempt)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError as err:
            raise ValueError("stopped") from err

    job = await queue.add("n", 1)
    async with consuming(redis_url, queue.name, convert, max_attempts=5):
        await until(lambda: runs)
        assert await queue.abort(job.id, timeout=20) == "aborted"
        assert await stream_is_empty(raw, queue.name)
        assert await delayed_jobs(raw, queue.name) == []
    assert runs == [0]


async def test_a_thread_sees_that_its_job_is_to_be_aborted(queue: Queue, redis_url: str) -> None:
    seen = []

    def look(job: Job) -> str:
        begun = time.monotonic()
        while not job.aborting and time.monotonic() < begun + 20:
            time.sleep(0.01)
        seen.append(job.aborting)
        return "stopped early"

    job = await queue.add("n", 1)
    async with consuming(redis_url, queue.name, look, store_results=True):
        assert await queue.abort(job.id, timeout=20) in ("aborted", "removed")
        await ends_as_aborted(queue, job.id)
    assert seen in ([True], [])


async def test_a_thread_that_does_not_look_completes(queue: Queue, redis_url: str) -> None:
    let_go = asyncio.Event()
    begun = []

    def work(job: Job) -> str:
        begun.append(job.id)
        while not let_go.is_set():
            time.sleep(0.01)
        return "all of it"

    job = await queue.add("n", 1)
    async with consuming(redis_url, queue.name, work, store_results=True):
        await until(lambda: begun)
        assert await queue.abort(job.id, timeout=0.5) == "requested"
        aborting = asyncio.create_task(queue.abort(job.id, timeout=20))
        let_go.set()
        assert await job.wait_for_result(timeout=10) == "all of it"
        assert await aborting == "gone"


async def test_a_thread_that_fails_when_its_job_is_to_be_aborted_is_not_retried(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    let_fail, runs = asyncio.Event(), []

    def fail(job: Job) -> None:
        runs.append(job.attempt)
        while not let_fail.is_set():
            time.sleep(0.01)
        raise ValueError("no")

    job = await queue.add("n", 1)
    async with consuming(redis_url, queue.name, fail, max_attempts=5):
        await until(lambda: runs)
        # At once: the worker may not have looked yet, and learns it when it writes the retry.
        assert await queue.abort(job.id, timeout=0) == "requested"
        let_fail.set()
        assert (await ends_as_aborted(queue, job.id)).attempt == 1
        assert await delayed_jobs(raw, queue.name) == []
    assert runs == [0]


async def test_a_process_is_killed(queue: Queue, redis_url: str) -> None:
    job = await queue.add("n", ["sleep", 60])
    async with consuming(redis_url, queue.name, act, run_plain_in="process", store_results=True):
        await until(lambda: _is_active(queue, job.id))
        assert await queue.abort(job.id, timeout=20) == "aborted"
        again = await queue.add("n", ["echo", 1])
        assert (await again.wait_for_result(timeout=20))[0] == [1]


async def _is_active(queue: Queue, job_id: str) -> bool:
    return (await queue.get_job(job_id)).state is JobState.ACTIVE


async def test_a_running_job_of_another_process_is_aborted(queue: Queue, redis_url: str, raw: Redis) -> None:
    job = await queue.add("n", "x")
    with WorkerProcess(redis_url, queue.name, "watchful:60", run_plain_in="thread"):
        await until(lambda: noted(raw, queue.name, "started"))
        assert await queue.abort(job.id, timeout=20) == "aborted"
    assert [what for what, *_ in await diary(raw, queue.name)] == ["started", "stopped"]


async def test_while_the_queue_is_paused_running_jobs_are_aborted_too(queue: Queue, redis_url: str) -> None:
    handler = Sleeper()
    job = await queue.add("n", 1)
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: handler.begun)
        await queue.pause()
        assert await queue.abort(job.id, timeout=20) == "aborted"


async def test_while_its_worker_stops_a_running_job_is_aborted_too(queue: Queue, redis_url: str) -> None:
    handler = Sleeper()
    job = await queue.add("n", 1)
    worker = Worker(queue.name, handler, redis_url=redis_url, shutdown_deadline_secs=60, read_block_ms=100)
    async with working(worker):
        await until(lambda: handler.begun)
        worker.stop()
        await asyncio.sleep(0)
        assert await queue.abort(job.id, timeout=20) == "aborted"


async def test_two_who_abort_one_job_agree(queue: Queue, redis_url: str) -> None:
    handler = Sleeper()
    job = await queue.add("n", 1)
    async with consuming(redis_url, queue.name, handler):
        await until(lambda: handler.begun)
        answers = await asyncio.gather(*(queue.abort(job.id, timeout=20) for _ in range(3)))
    assert set(answers) == {"aborted"}


# --- when its worker is gone ---


async def test_a_job_whose_worker_died_is_aborted_by_the_next_that_claims_it(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    job = await queue.add("n", 1)
    await hold_as("dead", queue, raw)
    assert await queue.abort(job.id, timeout=0.2) == "requested"
    async with consuming(redis_url, queue.name, handler := Recorder(), claim_min_idle_ms=300):
        error = await ends_as_aborted(queue, job.id)
        await until(lambda: stream_is_empty(raw, queue.name))
    assert error.attempt == 1, "the run of the worker that died counts"
    assert handler.jobs == []


async def test_a_job_that_its_worker_gives_back_is_aborted_by_the_next(
    queue: Queue, redis_url: str, raw: Redis
) -> None:
    job = await queue.add("n", 1)
    stopping, [entry_id] = await hold_as("stopping", queue, raw)
    assert await queue.abort(job.id, timeout=0) == "requested"
    assert await group.release(await queue._open_link(), stopping, [entry_id]) == 1
    async with consuming(redis_url, queue.name, handler := Recorder()):
        assert (await ends_as_aborted(queue, job.id)).attempt == 0
    assert handler.jobs == []


async def test_an_abort_follows_a_job_that_is_given_back(queue: Queue, raw: Redis) -> None:
    job = await queue.add("n", 1)
    stopping, [entry_id] = await hold_as("stopping", queue, raw)
    aborting = asyncio.create_task(queue.abort(job.id, timeout=20))
    await until(lambda: raw.exists(QueueKeys(queue.name).aborts))
    await group.release(await queue._open_link(), stopping, [entry_id])
    assert await aborting == "removed"


async def test_a_worker_that_stops_ends_what_it_could_not_stop(queue: Queue, redis_url: str, raw: Redis) -> None:
    job = await queue.add("n", 1)
    with WorkerProcess(redis_url, queue.name, "thread:60", shutdown_deadline_secs=1) as deaf:
        await until(lambda: noted(raw, queue.name, "started"))
        assert await queue.abort(job.id, timeout=0.5) == "requested"
        deaf.terminate()
        await deaf.ended()
    await ends_as_aborted(queue, job.id)
    assert await stream_is_empty(raw, queue.name)


async def hold_as(consumer: str, queue: Queue, raw: Redis) -> tuple[GroupMember, list[bytes]]:
    """A consumer that was given all jobs."""
    keys = QueueKeys(queue.name)
    await raw.xgroup_create(keys.stream, "default", "0")
    [[_, entries]] = await raw.xreadgroup("default", consumer, {keys.stream: ">"})
    return GroupMember(keys, "default", consumer), [entry_id for entry_id, _ in entries]


async def test_marks_are_bounded_and_do_not_stay(queue: Queue, redis_url: str, raw: Redis) -> None:
    keys, handler = QueueKeys(queue.name), Gate()
    await raw.zadd(keys.aborts, {"1-1": 1})
    job = await queue.add("n", 1)

    def hold(job: Job) -> None:
        handler.started.append(job.id)
        while not handler.finished:
            time.sleep(0.01)

    async with consuming(redis_url, queue.name, hold):
        await until(lambda: handler.started)
        assert await queue.abort(job.id, timeout=0) == "requested"
        assert await raw.zcard(keys.aborts) == 1, "what is out of time is forgotten"
        assert 23 * HOUR_MS < await raw.pttl(keys.aborts) <= 24 * HOUR_MS
        # It ends while the abort waits for it.
        asyncio.get_running_loop().call_later(1, handler.finished.append, 1)
        assert await queue.abort(job.id, timeout=20) == "gone"
        assert 0 < await raw.pttl(keys.aborts) <= 60_000
