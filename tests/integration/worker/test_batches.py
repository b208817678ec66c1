"""Batch handlers: which jobs come together, and that each of them ends by itself."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import (
    BatchError,
    ConfigError,
    HandlerRegistry,
    Job,
    JobAbortedError,
    JobFailedError,
    Queue,
    RetryLater,
    UnrecoverableError,
    Worker,
)
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import monotonic
from tests.support.consumers import add, pending
from tests.support.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

QUICK: dict[str, Any] = {"read_block_ms": 200, "run_scheduler": False, "shutdown_deadline_secs": 5, "backoff": 1}


@pytest.fixture
async def queue(redis_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        yield queue


class Batches(list[list[Any]]):
    """A handler that notes the payloads of each call."""

    async def __call__(self, jobs: list[Job]) -> None:
        self.append([job.payload for job in jobs])


async def run_burst(url: str, queue: str, handler: Any, **settings: Any) -> None:
    worker = Worker(queue, handler, redis_url=url, **{**QUICK, **settings})
    await asyncio.wait_for(worker.run(burst=True), PATIENCE_S)


async def test_jobs_come_in_lists_of_up_to_the_size_and_each_comes_once(redis_url: str, queue_name: str) -> None:
    await add(redis_url, queue_name, *range(1000))
    seen = Batches()
    await run_burst(redis_url, queue_name, seen, batch_size=300)
    assert sorted(chain(*seen)) == list(range(1000))
    assert max(map(len, seen)) == 300
    assert len(seen) <= 6


async def test_a_batch_that_is_not_full_goes_after_its_wait(redis_url: str, queue_name: str, queue: Queue) -> None:
    seen = Batches()
    worker = Worker(queue_name, seen, redis_url=redis_url, batch_size=50, batch_wait_ms=300, **QUICK)
    run = asyncio.create_task(worker.run())
    await worker.wait_until_ready()
    began = monotonic()
    await queue.add("", 1)
    await queue.add("", 2)
    await until(lambda: seen)
    assert seen == [[1, 2]]
    assert monotonic() - began >= 0.3
    await worker.close()
    await run


async def test_each_job_gets_its_own_result(redis_url: str, queue_name: str, queue: Queue) -> None:
    async def double(jobs: list[Job]) -> list[int]:
        return [job.payload * 2 for job in jobs]

    jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(20)])
    await run_burst(redis_url, queue_name, double, batch_size=20, store_results=True)
    assert await queue.get_job_result_bulk([job.id for job in jobs]) == [number * 2 for number in range(20)]


@pytest.mark.parametrize("value", [7, [1], "text"])
async def test_an_odd_value_completes_the_jobs_without_results_and_a_warning(
    redis_url: str, queue_name: str, queue: Queue, caplog: pytest.LogCaptureFixture, value: Any
) -> None:
    async def handle(jobs: list[Job]) -> Any:
        return value

    jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(5)])
    await run_burst(redis_url, queue_name, handle, batch_size=5, store_results=True)
    assert await queue.get_job_result_bulk([job.id for job in jobs]) == [None] * 5
    assert (await queue.counts()).dead == 0
    assert "not a list with one result for each" in caplog.text


async def test_a_part_fails_and_the_others_are_done(redis_url: str, raw: Redis, queue_name: str, queue: Queue) -> None:
    async def handle(jobs: list[Job]) -> None:
        bad = {job.id: UnrecoverableError(f"bad {job.payload}") for job in jobs if job.payload % 2}
        raise BatchError(bad, results={job.id: job.payload for job in jobs if job.id not in bad})

    jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(10)])
    await run_burst(redis_url, queue_name, handle, batch_size=10, store_results=True)
    assert await queue.get_job_result_bulk([job.id for job in jobs[::2]]) == [0, 2, 4, 6, 8]
    for job in jobs[1::2]:
        with pytest.raises(JobFailedError, match=f"bad {job.payload}"):
            await queue.wait_for_result(job.id, timeout=5)
    assert (await queue.counts()).dead == 5
    assert await raw.xlen(QueueKeys(queue_name).stream) == 0
    assert await pending(raw, queue_name) == {}


async def test_a_part_may_be_retried_or_postponed(redis_url: str, queue_name: str, queue: Queue) -> None:
    async def handle(jobs: list[Job]) -> None:
        errors: dict[str, BaseException] = {}
        for job in jobs:
            if job.payload == "again":
                errors[job.id] = ValueError("once more")
            if job.payload == "later":
                errors[job.id] = RetryLater(60)
        raise BatchError(errors)

    await queue.add_bulk([{"name": "n", "data": what} for what in ("good", "again", "later")])
    await run_burst(redis_url, queue_name, handle, batch_size=3, backoff=60_000)
    delayed = await queue.get_jobs("delayed")
    assert {job.payload: job.attempt for job in delayed} == {"again": 1, "later": 0}
    assert (await queue.counts()).dead == 0


async def test_an_error_of_the_whole_fails_each_by_its_own_rules(redis_url: str, queue_name: str, queue: Queue) -> None:
    async def fail(jobs: list[Job]) -> None:
        raise ValueError("all of them")

    await queue.add("once", 1, attempts=1)
    await queue.add("twice", 2, attempts=5, backoff=60_000)
    await run_burst(redis_url, queue_name, fail, batch_size=2)
    assert [entry["detail"] for entry in await queue.peek_dlq()] == ["ValueError: all of them"]
    assert [(job.payload, job.attempt) for job in await queue.get_jobs("delayed")] == [(2, 1)]


async def test_an_error_that_names_no_job_of_the_batch_fails_all(redis_url: str, queue_name: str, queue: Queue) -> None:
    """A job that failed does not pass for one that went well because its id was misspelled."""

    async def handle(jobs: list[Job]) -> None:
        raise BatchError({"other": ValueError("no")})

    await queue.add_bulk([{"name": "n", "data": number} for number in range(3)])
    await run_burst(redis_url, queue_name, handle, batch_size=3, max_attempts=1)
    details = [entry["detail"] for entry in await queue.peek_dlq()]
    assert len(details) == 3
    assert all("BatchError names 'other', the id of no job of the batch" in detail for detail in details)


def sleep_a_little(jobs: list[Job]) -> list[Any]:
    """For threads and processes."""
    time.sleep(0.05)
    bad = {job.id: UnrecoverableError("bad") for job in jobs if job.payload == "bad"}
    if bad:
        raise BatchError(bad, results={job.id: os.getpid() for job in jobs})
    return [os.getpid()] * len(jobs)


@pytest.mark.parametrize("where", ["thread", "process"])
async def test_plain_functions_get_lists_too(redis_url: str, queue_name: str, queue: Queue, where: Any) -> None:
    jobs = await queue.add_bulk([{"name": "n", "data": what} for what in ("good", "bad", "good")])
    await run_burst(
        redis_url, queue_name, sleep_a_little, batch_size=3, run_plain_in=where, store_results=True, concurrency=1
    )
    pids = await queue.get_job_result_bulk([jobs[0].id, jobs[2].id])
    assert pids[0] == pids[1]
    assert (pids[0] == os.getpid()) == (where == "thread")
    assert (await queue.counts()).dead == 1


async def test_two_batches_run_at_once_where_concurrency_allows_it(redis_url: str, queue_name: str) -> None:
    at_once = most = 0

    async def handle(jobs: list[Job]) -> None:
        nonlocal at_once, most
        at_once += len(jobs)
        most = max(most, at_once)
        await asyncio.sleep(0.2)
        at_once -= len(jobs)

    await add(redis_url, queue_name, *range(40))
    await run_burst(redis_url, queue_name, handle, batch_size=10, concurrency=20)
    assert most == 20


async def test_each_job_has_its_own_time_limit_and_the_call_is_cancelled_when_none_is_left(
    redis_url: str, queue_name: str, queue: Queue
) -> None:
    cancelled: list[int] = []

    async def handle(jobs: list[Job]) -> None:
        try:
            await asyncio.sleep(0.6 if any(job.payload == "long" for job in jobs) else 60)
        except asyncio.CancelledError:
            cancelled.append(len(jobs))
            raise

    settings: dict[str, Any] = {"batch_size": 2, "batch_wait_ms": 50, "max_attempts": 1}
    limit = {"time_limit_secs": lambda job: 0.2 if job.payload == "short" else 30}
    await queue.add_bulk([{"name": "n", "data": what} for what in ("short", "long")])
    await run_burst(redis_url, queue_name, handle, **settings, **limit)
    assert [entry["detail"] for entry in await queue.peek_dlq()] == [
        "JobTimeoutError: [CMQ-313] the handler ran longer than 0.2 s"
    ]
    assert cancelled == []
    await queue.add_bulk([{"name": "n", "data": "short"} for _ in range(2)])
    await run_burst(redis_url, queue_name, handle, **settings, **limit)
    assert cancelled == [2]


async def test_a_stop_lets_the_batch_end_and_leaves_the_rest(redis_url: str, raw: Redis, queue_name: str) -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def handle(jobs: list[Job]) -> None:
        begun.extend(job.payload for job in jobs)
        await asyncio.sleep(0.3)
        ended.extend(job.payload for job in jobs)

    await add(redis_url, queue_name, *range(100))
    worker = Worker(queue_name, handle, redis_url=redis_url, batch_size=10, concurrency=10, **QUICK)
    run = asyncio.create_task(worker.run())
    await worker.wait_until_ready()
    await until(lambda: ended)
    await worker.close()
    await run
    assert ended == begun
    assert await raw.xlen(QueueKeys(queue_name).stream) == 100 - len(ended)
    assert await pending(raw, queue_name) == {}


async def test_an_abort_is_shown_to_the_call_which_goes_on_for_the_others(
    redis_url: str, queue_name: str, queue: Queue
) -> None:
    began = asyncio.Event()

    async def handle(jobs: list[Job]) -> None:
        began.set()
        await until(lambda: any(job.aborting for job in jobs))
        aborted = {job.id: RuntimeError("left out") for job in jobs if job.aborting}
        raise BatchError(aborted, {job.id: "done" for job in jobs if not job.aborting})

    jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(3)])
    worker = Worker(queue_name, handle, redis_url=redis_url, batch_size=3, store_results=True, **QUICK)
    run = asyncio.create_task(worker.run())
    await asyncio.wait_for(began.wait(), PATIENCE_S)
    assert await queue.abort(jobs[1].id, timeout=PATIENCE_S) == "aborted"
    assert await queue.wait_for_result(jobs[0].id, timeout=PATIENCE_S) == "done"
    assert await queue.wait_for_result(jobs[2].id, timeout=PATIENCE_S) == "done"
    with pytest.raises(JobAbortedError):
        await queue.wait_for_result(jobs[1].id, timeout=PATIENCE_S)
    await worker.close()
    await run


async def test_a_batch_of_a_registry_is_of_jobs_of_its_names(redis_url: str, queue_name: str, queue: Queue) -> None:
    registry = HandlerRegistry()
    rows, others = Batches(), []

    @registry.handler("row", "line", batch=100, batch_wait_ms=50)
    async def insert(jobs: list[Job]) -> None:
        await rows(jobs)

    @registry.handler()
    def single(job: Job) -> None:
        others.append(job.payload)

    names = ("row", "line", "other")
    await queue.add_bulk([{"name": names[number % 3], "data": number} for number in range(300)])
    await run_burst(redis_url, queue_name, registry.dispatcher())
    assert sorted(chain(*rows)) == [number for number in range(300) if number % 3 < 2]
    assert max(map(len, rows)) > 20
    assert sorted(others) == list(range(2, 300, 3))


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"batch_size": 0}, "batch_size"), ({"batch_size": 2, "batch_wait_ms": -1}, "batch_wait_ms")],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Worker("q", Batches(), **settings)
    with pytest.raises(ConfigError, match="batch"):
        HandlerRegistry().handler("row", batch=0)
    with pytest.raises(ConfigError, match="by job id"):
        BatchError({"id": "text"})  # type: ignore[dict-item]
