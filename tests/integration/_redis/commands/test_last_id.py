"""A stream whose last id is used up takes no more entries: that is said, seldom, and there is a way out."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import Queue, RedisError, UnrecoverableError
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.consumers import Recorder, add, consuming
from tests.support.queues import dead_letters_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

LARGEST = f"{2**64 - 1}-{2**64 - 1}"


async def test_the_way_out_of_a_closed_queue(redis_url: str, raw: Redis, queue_name: str) -> None:
    stream = QueueKeys(queue_name).stream
    await raw.xadd(stream, {"d": "x"}, id=LARGEST)
    async with Queue(queue_name, redis_url=redis_url) as queue:
        for job_id in (None, "mine"):
            with pytest.raises(RedisError, match=r"`chasqui doctor` says what to do .*exhausted the last possible"):
                await queue.add("n", 1, job_id=job_id)
        seen = Recorder()
        async with consuming(redis_url, queue_name, seen):
            await until(lambda: _is_empty(raw, stream))
            await raw.delete(stream)
            await queue.add("n", 2)
            await until(lambda: seen.payloads == [2])


async def _is_empty(raw: Redis, stream: str) -> bool:
    return await raw.xlen(stream) == 0


async def test_dead_letters_that_take_no_more_are_told_once(
    redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    dlq = QueueKeys(queue_name).dlq
    await raw.xadd(dlq, {"d": "x"}, id=LARGEST)

    async def fail(job: Job) -> None:
        raise UnrecoverableError("no")

    with caplog.at_level(logging.WARNING, "chasqui"):
        await add(redis_url, queue_name, *range(20))
        async with consuming(redis_url, queue_name, fail):
            await until(lambda: "has used its last id" in caplog.text)
            await asyncio.sleep(2.5)
            said = [record.getMessage() for record in caplog.records if "jobs wait" in record.getMessage()]
            assert len(said) == 1
            assert "the server is full" not in caplog.text
            await raw.delete(dlq)
            await until(lambda: _all_dead(raw, queue_name))


async def _all_dead(raw: Redis, queue: str) -> bool:
    return len(await dead_letters_of(raw, queue)) == 20
