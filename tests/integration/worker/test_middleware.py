"""`Worker(middleware=[…])`: around each run, in order, and free to change it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Job, JobTimeoutError, Queue, RetryLater, Worker
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

QUICK: dict[str, Any] = {
    "read_block_ms": 200,
    "run_scheduler": False,
    "shutdown_deadline_secs": 5,
    "store_results": True,
}


@pytest.fixture
async def queue(redis_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        yield queue


async def run_burst(url: str, queue: Queue, handler: Any, *middleware: Any, **settings: Any) -> None:
    worker = Worker(queue.name, handler, redis_url=url, middleware=list(middleware), **{**QUICK, **settings})
    await asyncio.wait_for(worker.run(burst=True), PATIENCE_S)


def noting(diary: list[str], name: str) -> Any:
    async def middleware(job: Job, call_next: Any) -> Any:
        diary.append(f"{name} in")
        try:
            return f"{name}({await call_next(job)})"
        finally:
            diary.append(f"{name} out")

    return middleware


def plain(job: Job) -> str:
    time.sleep(0.01)
    return "value"


async def coroutine(job: Job) -> str:
    return "value"


@pytest.mark.parametrize(("handler", "settings"), [(coroutine, {}), (plain, {}), (plain, {"run_plain_in": "process"})])
async def test_the_first_is_outermost_wherever_the_handler_runs(
    redis_url: str, queue: Queue, handler: Any, settings: dict[str, Any]
) -> None:
    diary: list[str] = []
    job = await queue.add("n", 1)
    await run_burst(redis_url, queue, handler, noting(diary, "a"), noting(diary, "b"), **settings)
    assert diary == ["a in", "b in", "b out", "a out"]
    assert await queue.get_job_result(job.id) == "a(b(value))"


async def test_it_sees_errors_and_may_replace_them(redis_url: str, queue: Queue) -> None:
    seen: list[BaseException] = []

    async def soften(job: Job, call_next: Any) -> Any:
        try:
            return await call_next(job)
        except ValueError as err:
            seen.append(err)
            if job.payload == "later":
                raise RetryLater(60) from err
            return "instead"

    async def fail(job: Job) -> None:
        raise ValueError(job.payload)

    job = await queue.add("n", "now")
    await queue.add("n", "later")
    await run_burst(redis_url, queue, fail, soften)
    assert await queue.get_job_result(job.id) == "instead"
    assert [(job.payload, job.attempt) for job in await queue.get_jobs("delayed")] == [("later", 0)]
    assert len(seen) == 2


async def test_what_it_raises_fails_the_job(redis_url: str, queue: Queue) -> None:
    async def refuse(job: Job, call_next: Any) -> Any:
        raise PermissionError("not today")

    await queue.add("n", 1)
    await run_burst(redis_url, queue, coroutine, refuse, max_attempts=1)
    assert [entry["detail"] for entry in await queue.peek_dlq()] == ["PermissionError: not today"]


async def test_one_that_does_not_call_the_next_keeps_the_handler_from_running(redis_url: str, queue: Queue) -> None:
    ran: list[Job] = []

    async def skip(job: Job, call_next: Any) -> str:
        return "skipped"

    async def handle(job: Job) -> None:
        ran.append(job)

    job = await queue.add("n", 1)
    await run_burst(redis_url, queue, handle, skip)
    assert await queue.get_job_result(job.id) == "skipped"
    assert ran == []


async def test_it_is_outside_the_time_limit(redis_url: str, queue: Queue) -> None:
    seen: list[str] = []

    async def look(job: Job, call_next: Any) -> Any:
        try:
            return await call_next(job)
        except JobTimeoutError as err:
            seen.append(str(err))
            raise

    async def sleep(job: Job) -> None:
        await asyncio.sleep(60)

    await queue.add("n", 1)
    await run_burst(redis_url, queue, sleep, look, time_limit_secs=0.1, max_attempts=1)
    assert seen == ["[CMQ-313] the handler ran longer than 0.1 s"]


async def test_it_runs_around_each_job_of_a_batch(redis_url: str, queue: Queue) -> None:
    diary: list[str] = []

    async def handle(jobs: list[Job]) -> list[int]:
        diary.append(f"{len(jobs)} jobs")
        return [job.payload for job in jobs]

    jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(3)])
    await run_burst(redis_url, queue, handle, noting(diary, "a"), batch_size=3)
    assert diary == ["a in"] * 3 + ["3 jobs"] + ["a out"] * 3
    assert await queue.get_job_result_bulk([job.id for job in jobs]) == ["a(0)", "a(1)", "a(2)"]


@pytest.mark.parametrize("wrong", ["text", [print], [lambda job, call_next: call_next(job)], [None], coroutine])
def test_what_is_no_middleware_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="middleware must be"):
        Worker("q", coroutine, middleware=wrong)
