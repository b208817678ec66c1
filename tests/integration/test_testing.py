"""`chasqui_engine.testing`: what people write tests of their handlers with."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, HandlerError, Job, Queue, RetryLater, SyncQueue, UnrecoverableError
from chasqui_engine import testing as testing_module
from chasqui_engine.testing import assert_added, assert_nothing_added, list_added, run_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def queue(redis_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        yield queue


async def double(job: Job) -> int:
    return int(job.payload) * 2


async def test_all_jobs_are_run_and_their_results_are_there(queue: Queue) -> None:
    jobs = await queue.add_bulk([{"name": "n", "data": number} for number in range(30)])
    ran = await run_all(queue, double)
    assert ran.results == {job.id: job.payload * 2 for job in jobs}
    assert len(ran.completed) == 30
    assert ran.failed == []
    await assert_nothing_added(queue)


async def test_jobs_that_a_handler_adds_are_run_too(queue: Queue) -> None:
    async def count_down(job: Job) -> None:
        if job.payload:
            await queue.add("next", job.payload - 1)

    await queue.add("first", 5)
    assert len((await run_all(queue, count_down)).completed) == 6


async def test_what_is_delayed_is_left_unless_asked_for(queue: Queue) -> None:
    await queue.add("n", 1, delay_ms=3_600_000)
    assert (await run_all(queue, double)).completed == []
    await assert_added(queue, name="n", payload=1)
    ran = await run_all(queue, double, delayed=True)
    assert list(ran.results.values()) == [2]
    await assert_nothing_added(queue)


async def test_retries_run_without_their_wait_and_failures_are_reported(queue: Queue) -> None:
    async def fail_twice(job: Job) -> str:
        if job.attempt < 2:
            raise HandlerError(job.attempt)
        return "at last"

    job = await queue.add("n", 1, backoff=3_600_000)
    ran = await run_all(queue, fail_twice, delayed=True)
    assert ran.results == {job.id: "at last"}
    assert [(failed.id, str(error)) for failed, error in ran.failed] == [(job.id, "0"), (job.id, "1")]


async def test_a_job_that_dies_is_reported(queue: Queue) -> None:
    async def die(job: Job) -> None:
        raise UnrecoverableError("no")

    await queue.add("n", 1)
    ran = await run_all(queue, die, delayed=True)
    assert [str(error) for _, error in ran.failed] == ["no"]
    assert (await queue.counts()).dead == 1


async def test_a_job_that_is_postponed_for_ever_does_not_hang_a_test(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def postpone(job: Job) -> None:
        raise RetryLater(60)

    monkeypatch.setattr(testing_module, "_MOST_ROUNDS", 3)
    await queue.add("n", 1)
    with pytest.raises(ConfigError, match="delayed again and again"):
        await run_all(queue, postpone, delayed=True)


async def test_added_jobs_are_found_by_name_payload_and_number(queue: Queue) -> None:
    await queue.add("mail", {"to": "ada"})
    await queue.add("mail", {"to": "bob"}, delay_ms=60_000)
    assert (await assert_added(queue, name="mail", payload={"to": "bob"})).payload == {"to": "bob"}
    await assert_added(queue, name="mail", count=2)
    await queue.add("first", {"to": "cleo"}, priority=3)
    await assert_added(queue, name="first", count=1)
    await assert_added(queue, payload=lambda payload: payload["to"].startswith("a"), count=1)
    assert {job.payload["to"] for job in await list_added(queue)} == {"ada", "bob", "cleo"}


async def test_an_assertion_that_fails_says_what_is_there(queue: Queue) -> None:
    with pytest.raises(AssertionError, match=r"should have a job named 'mail' with any payload.*there is nothing"):
        await assert_added(queue, name="mail")
    await queue.add("sms", {"to": "ada"})
    with pytest.raises(AssertionError, match=r"has 0 such; there is 'sms' \{'to': 'ada'\}"):
        await assert_added(queue, name="mail")
    with pytest.raises(AssertionError, match=r"2 job\(s\) named 'sms'.* has 1 such"):
        await assert_added(queue, name="sms", count=2)
    with pytest.raises(AssertionError, match="should be empty; there is 'sms'"):
        await assert_nothing_added(queue)


def test_blocking_programs_use_it_too(redis_url: str, queue_name: str) -> None:
    def plain(job: Job) -> Any:
        return job.payload

    with SyncQueue(queue_name, redis_url=redis_url) as queue:
        job = queue.add("n", 3)
        asyncio.run(assert_added(queue, name="n"))
        assert asyncio.run(run_all(queue, plain)).results == {job.id: 3}


async def test_it_needs_no_server(queue_name: str) -> None:
    async with Queue(queue_name, redis_url="embedded://") as queue:
        job = await queue.add("n", 4)
        assert (await run_all(queue, double)).results == {job.id: 8}
