"""Failures are said aloud: a failed run is a warning, a death an error with its traceback."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import BackoffSpec, Job, JobIdFilter, Queue, UnrecoverableError, Worker
from tests.support.waiting import until

if TYPE_CHECKING:
    import redis.asyncio

pytestmark = pytest.mark.asyncio


async def fail(job: Job) -> None:
    raise ValueError("mailbox\nis full")


def records(caplog: pytest.LogCaptureFixture, level: int) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "chasqui.consumer" and record.levelno == level]


async def test_a_failed_run_is_a_warning_and_a_death_an_error(
    redis_url: str, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "chasqui")
    async with Queue(queue_name, redis_url=redis_url) as queue, Worker(queue_name, fail, redis_url=redis_url) as worker:
        running = asyncio.create_task(worker.run())
        job = await queue.add("welcome", {}, attempts=2, backoff=BackoffSpec.fixed(20, jitter_ms=0))
        await until(lambda: bool(records(caplog, logging.ERROR)))
        await worker.close()
        await running
    [warning], [error] = records(caplog, logging.WARNING), records(caplog, logging.ERROR)
    assert warning.getMessage() == (
        f"queue {queue_name}: job {job.id!r} ('welcome') failed in run 1 of 2: ValueError: mailbox is full; "
        "it runs again in 0.0 s"
    )
    assert not warning.exc_info
    facts = (warning.queue, warning.job_id, warning.job_name, warning.attempt, warning.max_attempts)  # type: ignore[attr-defined]
    assert facts == (queue_name, job.id, "welcome", 1, 2)
    assert f"queue {queue_name}: job {job.id!r} ('welcome') was buried after 2 run(s)" in error.getMessage()
    assert "retries_exhausted: ValueError: mailbox is full" in error.getMessage()
    assert error.exc_info
    assert isinstance(error.exc_info[1], ValueError)
    assert (error.reason, error.attempt) == ("retries_exhausted", 2)  # type: ignore[attr-defined]
    said = [record.getMessage() for record in records(caplog, logging.INFO)]
    assert any(f"started: queue {queue_name}" in line for line in said)
    assert any(f"stopped: queue {queue_name}" in line for line in said)


async def test_an_entry_that_cannot_be_read_is_an_error(
    redis_url: str, queue_name: str, raw: redis.asyncio.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.xadd(f"{{chasqui:{queue_name}}}:stream", {"d": b"\xc1", "n": "odd"})
    async with Worker(queue_name, fail, redis_url=redis_url) as worker:
        running = asyncio.create_task(worker.run())
        await until(lambda: bool(records(caplog, logging.ERROR)))
        await worker.close()
        await running
    [error] = records(caplog, logging.ERROR)
    assert "('odd') was buried before its first run, decode_failed" in error.getMessage()
    assert not error.exc_info


@pytest.mark.parametrize("plain", [False, True], ids=["async", "thread"])
async def test_what_a_handler_logs_carries_its_job(
    redis_url: str, queue_name: str, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("tests.handlers")

    async def handle(job: Job) -> None:
        log.warning("at work")

    def handle_plainly(job: Job) -> None:
        log.warning("at work")

    caplog.handler.addFilter(JobIdFilter())
    chosen = handle_plainly if plain else handle
    async with Queue(queue_name, redis_url=redis_url) as queue:
        jobs = [await queue.add("n", {}) for _ in range(3)]
        async with Worker(queue_name, chosen, redis_url=redis_url, log_job_ids=True) as worker:
            running = asyncio.create_task(worker.run())
            await until(lambda: sum(record.getMessage() == "at work" for record in caplog.records) == 3)
            await worker.close()
            await running
    said = {record.job_id for record in caplog.records if record.getMessage() == "at work"}  # type: ignore[attr-defined]
    assert said == {job.id for job in jobs}


async def test_one_error_raised_by_all_runs_has_the_traceback_of_one(
    redis_url: str, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    shared = UnrecoverableError("no")

    async def fail_alike(job: Job) -> None:
        raise shared

    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add_bulk([{"name": "n", "data": n} for n in range(30)])
        async with Worker(queue_name, fail_alike, redis_url=redis_url) as worker:
            running = asyncio.create_task(worker.run())
            await until(lambda: len(records(caplog, logging.ERROR)) == 30)
            await worker.close()
            await running
    lengths = {len(traceback.extract_tb(record.exc_info[2])) for record in records(caplog, logging.ERROR)}  # type: ignore[index]
    assert max(lengths) < 10
