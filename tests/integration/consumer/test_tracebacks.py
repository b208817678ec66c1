"""What is kept of the last failed run: its traceback, for those who wait and those who look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import JobFailedError, Queue, UnrecoverableError
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.job import MAX_TRACEBACK_BYTES
from tests.support.consumers import consuming
from tests.support.queues import dead_letters_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


def _dig(depth: int) -> None:
    if not depth:
        raise UnrecoverableError("bedrock")
    _dig(depth - 1)


def _dig_plain(job: Job) -> None:
    _dig(job.payload)


async def _dig_async(job: Job) -> None:
    _dig(job.payload)


async def _death(url: str, queue_name: str, handler: Any, payload: Any, **settings: Any) -> JobFailedError:
    async with Queue(queue_name, redis_url=url) as queue, consuming(url, queue_name, handler, **settings):
        job = await queue.add("dig", payload)
        with pytest.raises(JobFailedError) as caught:
            await job.wait_for_result(timeout=20)
    return caught.value


@pytest.mark.parametrize(
    ("handler", "settings"), [(_dig_async, {}), (_dig_plain, {}), (_dig_plain, {"run_plain_in": "process"})]
)
async def test_the_traceback_of_the_handler_reaches_who_waits(
    redis_url: str, queue_name: str, handler: Any, settings: dict[str, Any]
) -> None:
    error = await _death(redis_url, queue_name, handler, 2, **settings)
    assert error.traceback is not None
    lines = error.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert f"in {handler.__name__}" in error.traceback
    assert "UnrecoverableError: bedrock" in error.traceback
    if not settings:
        assert f"in {handler.__name__}" in lines[1]
        assert lines[-1] == "chasqui_engine.values.errors.UnrecoverableError: bedrock"


async def test_it_is_that_of_the_last_run_with_what_caused_it(redis_url: str, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        try:
            raise KeyError(f"cause of run {job.attempt + 1}")
        except KeyError as err:
            raise ValueError(f"run {job.attempt + 1}") from err

    error = await _death(redis_url, queue_name, handler, 1, max_attempts=2)
    assert error.traceback is not None
    assert "KeyError: 'cause of run 2'" in error.traceback
    assert error.traceback.endswith("ValueError: run 2")
    assert "run 1" not in error.traceback


@pytest.mark.parametrize(("depth", "text"), [(900, "bedrock"), (1, "ä" * 100_000)])
async def test_a_long_one_keeps_its_head_and_its_tail(
    redis_url: str, raw: Redis, queue_name: str, depth: int, text: str
) -> None:
    def fall(left: int) -> None:
        if not left:
            raise UnrecoverableError(text)
        # Two lines by turns, so that equal frames are not folded.
        if left % 2:
            fall(left - 1)
        else:
            fall(left - 1)

    async def handler(job: Job) -> None:
        fall(job.payload)

    error = await _death(redis_url, queue_name, handler, depth)
    assert error.traceback is not None
    assert 2000 < len(error.traceback.encode()) <= MAX_TRACEBACK_BYTES
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert "bytes left out …" in error.traceback
    assert error.traceback.endswith(text[-20:])


async def test_an_error_that_cannot_be_shown_is_buried_all_the_same(redis_url: str, queue_name: str) -> None:
    class Strange(UnrecoverableError):  # noqa: N818 - the name is part of what is shown
        def __str__(self) -> str:
            raise RuntimeError("no words")

    async def handler(job: Job) -> None:
        raise Strange

    error = await _death(redis_url, queue_name, handler, 1)
    assert error.traceback is not None
    assert "Strange" in error.traceback


async def test_a_lone_surrogate_is_replaced(redis_url: str, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        raise UnrecoverableError("half a pair: \ud800")

    error = await _death(redis_url, queue_name, handler, 1)
    assert error.traceback is not None
    assert error.traceback.endswith("half a pair: ?")


async def test_it_is_found_by_job_and_goes_with_a_replay(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        async with consuming(redis_url, queue_name, _dig_async):
            await queue.add("dig", 1, job_id="deep")
            await until(lambda: dead_letters_of(raw, queue_name))
        info = await queue.get_job("deep")
        assert info.traceback is not None
        assert await queue.get_tracebacks(["other", "deep", None]) == [None, info.traceback, None]
        assert await queue.replay_dlq() == 1
        assert await queue.get_tracebacks(["deep"]) == [None]


async def test_what_no_handler_ran_for_has_none(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue, consuming(redis_url, queue_name, _dig_async):
        await raw.xadd(QueueKeys(queue_name).stream, {"d": b"\x94\xa1x\xc1\x01\x00"})
        await until(lambda: dead_letters_of(raw, queue_name))
        await asyncio.sleep(0)
        assert await queue.get_tracebacks(["x"]) == [None]
