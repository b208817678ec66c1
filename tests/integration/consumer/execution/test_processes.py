"""Handlers in processes of their own."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import JobFailedError, Queue
from chasqui_engine.metrics import InMemorySink, JobOutcome
from chasqui_engine.runtime.clock import monotonic
from tests.integration.consumer.execution.process_handlers import act
from tests.support.consumers import consuming
from tests.support.queues import dead_letters_of

if TYPE_CHECKING:
    from redis.asyncio import Redis

PROCESSES = {"run_plain_in": "process", "store_results": True, "max_attempts": 1}


async def test_calls_and_their_ends(redis_url: str, raw: Redis, queue_name: str) -> None:
    """One worker with one process for all of it, since starting one is what takes time."""
    sink = InMemorySink()
    async with (
        consuming(redis_url, queue_name, act, concurrency=1, metrics=sink, **PROCESSES),
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        first = await queue.add("", ["pid"])
        pid = await first.wait_for_result(timeout=20)
        assert pid != os.getpid()
        echo = await queue.add("näme", ["echo", {"k": b"\x00"}])
        assert await echo.wait_for_result(timeout=10) == [[{"k": b"\x00"}], echo.id, "näme", 0]
        assert await (await queue.add("", ["coroutine"])).wait_for_result(timeout=10) == "later"
        for what in ("raise", "sys.exit", "awkward", "awkward-unrecoverable", "unpicklable"):
            with pytest.raises(JobFailedError):
                await (await queue.add("", [what])).wait_for_result(timeout=10)
        assert await (await queue.add("", ["pid"])).wait_for_result(timeout=10) == pid
    letters = await dead_letters_of(raw, queue_name)
    assert [(letter["reason"], letter["detail"]) for letter in letters[:4]] == [
        (b"retries_exhausted", b"ValueError: boom"),
        (b"retries_exhausted", b"SystemExit: 3"),
        (b"retries_exhausted", b"HandlerError: AwkwardError: 1 and 2"),
        (b"unrecoverable", b"UnrecoverableError: AwkwardUnrecoverableError: 1 and 2"),
    ]
    assert b"the handler's return value cannot be sent from its process" in letters[4]["detail"]
    kinds = [str(outcome.kind) for outcome in sink.events(JobOutcome)]
    assert kinds == ["ok"] * 3 + ["err", "panic", "err", "err", "err", "ok"]


async def test_a_process_that_dies_costs_its_own_job_only(valkey_url: str, queue_name: str) -> None:
    sink = InMemorySink()
    async with (
        consuming(valkey_url, queue_name, act, concurrency=2, metrics=sink, **PROCESSES),
        Queue(queue_name, redis_url=valkey_url) as queue,
    ):
        warm_up = [await queue.add("", ["sleep", 0.5]) for _ in range(2)]
        await asyncio.gather(*(job.wait_for_result(timeout=20) for job in warm_up))
        beside = await queue.add("", ["sleep", 1.5])
        with pytest.raises(JobFailedError, match="the process that ran the handler died"):
            await (await queue.add("", ["exit"])).wait_for_result(timeout=20)
        assert await beside.wait_for_result(timeout=20) is None
        assert isinstance(await (await queue.add("", ["pid"])).wait_for_result(timeout=20), int)
    assert [str(outcome.kind) for outcome in sink.events(JobOutcome)] == ["ok", "ok", "panic", "ok", "ok"]


async def test_a_call_over_its_time_limit_is_ended(valkey_url: str, queue_name: str) -> None:
    """It does not go on in secret, and the next job does not wait for it."""
    limit = 20.0
    async with (
        consuming(valkey_url, queue_name, act, concurrency=1, time_limit_secs=lambda job: limit, **PROCESSES),
        Queue(queue_name, redis_url=valkey_url) as queue,
    ):
        pid = await (await queue.add("", ["pid"])).wait_for_result(timeout=20)
        limit = 0.2
        began = monotonic()
        with pytest.raises(JobFailedError, match="CMQ-313"):
            await (await queue.add("", ["sleep", 30])).wait_for_result(timeout=20)
        assert monotonic() - began < 5
        limit = 20.0
        assert await (await queue.add("", ["pid"])).wait_for_result(timeout=20) != pid
