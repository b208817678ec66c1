"""Handlers write a log of each job: in order, bounded, there when the job has ended, and never in its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Queue, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.queues import keys_of, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


async def log_lines(job: Job) -> int:
    for line in job.data:
        await job.log(line)
    return len(job.data)


def log_plainly(job: Job) -> int:
    for line in job.data:
        job.log(line)
    return len(job.data)


async def run(queue: Queue, redis_url: str, handler: Any, lines: Any, **options: Any) -> str:
    """A job that logs these lines has ended; its id."""
    worker = Worker(queue.name, handler, redis_url=redis_url, store_results=True, read_block_ms=50, **options)
    async with working(worker):
        job = await queue.add("n", lines)
        await job.wait_for_result(timeout=20)
        return job.id


@pytest.mark.parametrize("handler", [log_lines, log_plainly])
async def test_lines_are_there_in_order_when_the_job_has_ended(queue: Queue, redis_url: str, handler: Any) -> None:
    lines = [f"line {n}" for n in range(300)]
    worker = Worker(queue.name, handler, redis_url=redis_url, store_results=True, read_block_ms=50)
    async with working(worker):
        job = await queue.add("n", lines)
        assert await job.wait_for_result(timeout=20) == 300
        assert await queue.get_job_logs(job.id) == (lines, 300)


async def test_without_events_too(queue: Queue, redis_url: str) -> None:
    job_id = await run(queue, redis_url, log_lines, ["a"], events_enabled=False)
    assert await queue.get_job_logs(job_id) == (["a"], 1)


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ({}, "abcde"),
        ({"start": 1, "end": 2}, "bc"),
        ({"start": 3, "end": 100}, "de"),
        ({"start": 9}, ""),
        ({"start": -2}, "de"),
        ({"end": -2}, "abcd"),
        ({"asc": False}, "edcba"),
        ({"end": 1, "asc": False}, "ed"),
    ],
)
async def test_pages_of_a_log(queue: Queue, raw: Redis, which: dict[str, Any], expected: str) -> None:
    for line in "abcde":
        await raw.xadd(QueueKeys(queue.name).log("j"), {"line": line})
    assert await queue.get_job_logs("j", **which) == (list(expected), 5)


async def test_a_job_without_a_log(queue: Queue, redis_url: str, raw: Redis) -> None:
    job_id = await run(queue, redis_url, log_lines, [])
    assert await queue.get_job_logs(job_id) == ([], 0)
    assert not [key for key in await keys_of(raw, queue.name) if ":log:" in key]


async def test_a_log_is_bounded_in_lines_bytes_and_time(queue: Queue, redis_url: str, raw: Redis) -> None:
    async def handle(job: Job) -> None:
        for n in range(1500):
            job.log(f"{n} " + "ü" * 3000)

    job_id = await run(queue, redis_url, handle, None, result_ttl_ms=100_000)
    found, count = await queue.get_job_logs(job_id)
    assert len(found) == count
    assert 1000 <= count <= 1200
    assert [line.split()[0] for line in found] == [str(n) for n in range(1500 - count, 1500)]
    assert {len(line.encode()) for line in found} <= {4095, 4096}
    assert 80 < await raw.ttl(QueueKeys(queue.name).log(job_id)) <= 100


async def test_a_line_of_odd_text(queue: Queue, redis_url: str) -> None:
    odd = ["", "two\nlines", "\x00\x1b[31m", "half \ud83d a pair"]

    async def handle(job: Job) -> None:
        for line in odd:
            job.log(line)

    job_id = await run(queue, redis_url, handle, None)
    assert (await queue.get_job_logs(job_id))[0] == ["", "two\nlines", "\x00\x1b[31m", "half ? a pair"]


async def test_a_line_that_is_no_text_is_named(queue: Queue, redis_url: str) -> None:
    errors: list[Exception] = []

    async def handle(job: Job) -> None:
        try:
            job.log(7)  # type: ignore[arg-type]
        except ConfigError as err:
            errors.append(err)

    await run(queue, redis_url, handle, None)
    assert "must be text, got int" in str(errors[0])


async def test_a_log_goes_on_over_retries_and_is_kept_for_a_dead_job(queue: Queue, redis_url: str, raw: Redis) -> None:
    async def handle(job: Job) -> None:
        job.log(f"run {job.attempt}")
        raise ValueError("no")

    worker = Worker(queue.name, handle, redis_url=redis_url, read_block_ms=50, max_attempts=2)
    async with working(worker):
        job = await queue.add("n", 1, backoff=10)
        await until(lambda: raw.xlen(queue.dlq_key))
        assert await queue.get_job_logs(job.id) == (["run 0", "run 1"], 2)


async def test_a_removed_job_has_no_log(queue: Queue, redis_url: str, raw: Redis) -> None:
    job_id = await run(queue, redis_url, log_lines, ["a"])
    assert await queue.remove(job_id) == 1
    assert not await raw.exists(QueueKeys(queue.name).log(job_id))


async def test_a_log_that_cannot_be_written_does_not_hold_up_the_job(
    queue: Queue, redis_url: str, raw: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.set(QueueKeys(queue.name).log("own"), "of another type")
    worker = Worker(queue.name, log_lines, redis_url=redis_url, store_results=True, read_block_ms=50)
    async with working(worker):
        job = await queue.add("n", ["a"], job_id="own")
        assert await job.wait_for_result(timeout=20) == 1
    assert "1 line(s) of job logs were lost" in caplog.text


async def test_a_log_needs_a_handlers_job(queue: Queue) -> None:
    job = await queue.add("n", 1)
    with pytest.raises(RuntimeError, match="handler"):
        job.log("x")


async def test_a_handler_in_a_process_logs_there(queue: Queue, redis_url: str) -> None:
    job_id = await run(queue, redis_url, log_plainly, ["a", "b"], run_plain_in="process")
    assert await queue.get_job_result(job_id) == 2
    assert await queue.get_job_logs(job_id) == ([], 0)
