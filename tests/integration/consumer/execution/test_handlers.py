"""Every kind of handler, and every way in which one can end."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Queue, Worker
from chasqui_engine.metrics import InMemorySink, JobOutcome
from chasqui_engine.runtime.clock import monotonic
from tests.support.consumers import add, consuming
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Handler, Job


async def _plus_one(job: Job) -> int:
    return int(job.payload) + 1


def _plain_plus_one(job: Job) -> int:
    assert threading.current_thread() is not threading.main_thread()
    return int(job.payload) + 1


async def _plus(number: int, job: Job) -> int:
    return int(job.payload) + number


class AsyncCallable:
    async def __call__(self, job: Job) -> int:
        return int(job.payload) + 1

    async def method(self, job: Job) -> int:
        return int(job.payload) + 1

    def plain_method(self, job: Job) -> int:
        return _plain_plus_one(job)


class PlainCallable:
    def __call__(self, job: Job) -> int:
        return _plain_plus_one(job)


HANDLERS: dict[str, Handler] = {
    "async function": _plus_one,
    "plain function": _plain_plus_one,
    "lambda around an async function": lambda job: _plus(1, job),
    "partial of an async function": functools.partial(_plus, 1),
    "partial of an async object": functools.partial(AsyncCallable()),
    "async object": AsyncCallable(),
    "async method": AsyncCallable().method,
    "plain object": PlainCallable(),
    "plain method": AsyncCallable().plain_method,
}


@pytest.mark.parametrize("kind", HANDLERS)
async def test_every_kind_of_callable(redis_url: str, queue_name: str, kind: str) -> None:
    async with (
        consuming(redis_url, queue_name, HANDLERS[kind], store_results=True),
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        job = await queue.add("", 41)
        assert await job.wait_for_result(timeout=10) == 42


async def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match="handler must be a function"):
        Worker("q", "not a function")  # type: ignore[arg-type]


async def test_generators_are_refused() -> None:
    """Calling one runs nothing of it, so that every job would seem to succeed."""

    def plain(job: Job) -> Any:
        yield job

    async def asynchronous(job: Job) -> Any:
        yield job

    for handler in (plain, asynchronous):
        with pytest.raises(ConfigError, match="generator"):
            Worker("q", handler)


async def test_a_handler_that_no_process_can_get_is_refused(redis_url: str, queue_name: str) -> None:
    worker = Worker(queue_name, lambda job: None, redis_url=redis_url, run_plain_in="process")
    with pytest.raises(ConfigError, match="cannot be sent to a process"):
        await worker.run()


async def test_the_handler_is_given_the_whole_job(redis_url: str, queue_name: str) -> None:
    jobs: list[Job] = []

    async def handler(job: Job) -> None:
        jobs.append(job)

    async with (
        consuming(redis_url, queue_name, handler),
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        added = await queue.add("mail", {"to": "x"}, attempts=4, backoff=50, job_id="mine")
        await until(lambda: jobs)
    assert jobs == [added]
    assert (jobs[0].data, jobs[0].name, jobs[0].attempts_made) == ({"to": "x"}, "mail", 0)


async def test_plain_functions_run_side_by_side_and_leave_the_loop_alone(redis_url: str, queue_name: str) -> None:
    together = threading.Barrier(8)
    turns = 0

    def handler(job: Job) -> None:
        together.wait(10)  # only passes if all are inside at once
        time.sleep(0.2)

    async with (
        consuming(redis_url, queue_name, handler, concurrency=8, store_results=True),
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        jobs = [await queue.add("", n) for n in range(8)]
        waiting = asyncio.gather(*(job.wait_for_result(timeout=10) for job in jobs))
        longest_s, last = 0.0, monotonic()
        while not waiting.done():
            await asyncio.sleep(0.005)
            longest_s, last = max(longest_s, monotonic() - last), monotonic()
            turns += 1
        assert await waiting == [None] * 8
    assert turns > 10
    assert longest_s < 0.2


async def test_no_more_run_at_once_than_asked_for(redis_url: str, raw: Redis, queue_name: str) -> None:
    running = most = 0

    async def handler(job: Job) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1

    async with consuming(redis_url, queue_name, handler, concurrency=3):
        await add(redis_url, queue_name, *range(40))
        await until(lambda: stream_is_empty(raw, queue_name))
    assert most == 3


async def test_context_variables_reach_threads(redis_url: str, queue_name: str) -> None:
    """What was set where the worker was started is seen by its handlers; what they set stays theirs."""
    tenant = contextvars.ContextVar("tenant", default="nobody")
    tenant.set("acme")

    def handler(job: Job) -> str:
        before = tenant.get()
        tenant.set(f"changed by {job.payload}")
        return before

    async with (
        consuming(redis_url, queue_name, handler, concurrency=1, store_results=True),
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        jobs = [await queue.add("", n) for n in range(3)]
        assert [await job.wait_for_result(timeout=10) for job in jobs] == ["acme"] * 3


async def _outcomes(url: str, raw: Redis, queue: str, handler: Handler, *payloads: Any, **settings: Any) -> list[str]:
    """How the runs of jobs with one attempt each ended."""
    sink = InMemorySink()
    async with consuming(url, queue, handler, metrics=sink, max_attempts=1, **settings) as consumer:
        await add(url, queue, *payloads)
        await until(lambda: len(sink.events(JobOutcome)) == len(payloads) or consumer.task.done())
        assert not consumer.task.done()
        await until(lambda: stream_is_empty(raw, queue))
    return [str(outcome.kind) for outcome in sink.events(JobOutcome)]


async def _raise_async(job: Job) -> None:
    _raise_plain(job)


def _raise_plain(job: Job) -> None:
    raise {
        "SystemExit": SystemExit(1),
        "KeyboardInterrupt": KeyboardInterrupt(),
        "CancelledError": asyncio.CancelledError(),
        "GeneratorExit": GeneratorExit(),
        "StopIteration": StopIteration(5),
        "ValueError": ValueError("x"),
    }[job.payload]


@pytest.mark.parametrize("handler", [_raise_async, _raise_plain], ids=["async", "thread"])
async def test_leaving_in_a_rage_counts_as_a_panic(
    redis_url: str, raw: Redis, queue_name: str, handler: Handler
) -> None:
    """And the worker lives on to run the next one."""
    rage = ["SystemExit", "KeyboardInterrupt", "CancelledError", "GeneratorExit"]
    kinds = await _outcomes(redis_url, raw, queue_name, handler, *rage, "ValueError", concurrency=1)
    assert kinds == ["panic"] * 4 + ["err"]
    assert len(await dead_letters_of(raw, queue_name)) == 5


async def test_a_plain_function_may_raise_stop_iteration(redis_url: str, raw: Redis, queue_name: str) -> None:
    assert await _outcomes(redis_url, raw, queue_name, _raise_plain, "StopIteration") == ["err"]


async def test_waiting_for_a_cancelled_task_is_a_failure_of_the_job(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    async def handler(job: Job) -> None:
        task = asyncio.create_task(asyncio.sleep(10))
        task.cancel()
        await task

    assert await _outcomes(redis_url, raw, queue_name, handler, 1, 2) == ["panic", "panic"]


async def test_a_handler_that_cancels_its_own_task_harms_only_itself(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    """As libraries do that take a task for theirs."""

    async def handler(job: Job) -> None:
        if job.payload == "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(1)

    assert await _outcomes(redis_url, raw, queue_name, handler, "cancel", "x", concurrency=1) == ["panic", "ok"]


async def test_timeouts_of_the_handlers_own_are_ordinary_errors(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        async with asyncio.timeout(0.01):
            await asyncio.sleep(5)

    assert await _outcomes(redis_url, raw, queue_name, handler, 1) == ["err"]
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter["detail"] == b"TimeoutError: "


async def _nap(job: Job) -> None:
    await asyncio.sleep(job.payload)


def _plain_nap(job: Job) -> None:
    time.sleep(job.payload)


@pytest.mark.parametrize("handler", [_nap, _plain_nap], ids=["async", "thread"])
async def test_a_time_limit_for_all(redis_url: str, raw: Redis, queue_name: str, handler: Handler) -> None:
    assert await _outcomes(redis_url, raw, queue_name, handler, 0, 0.6, time_limit_secs=0.2) == ["ok", "err"]
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter["reason"] == b"retries_exhausted"
    assert letter["detail"] == b"JobTimeoutError: [CMQ-313] the handler ran longer than 0.2 s"


async def test_a_thread_over_its_time_limit_is_not_run_again_before_it_has_ended(
    redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    spans: list[tuple[float, float]] = []

    def handler(job: Job) -> None:
        began = time.monotonic()
        time.sleep(0.5)
        spans.append((began, time.monotonic()))

    async with consuming(redis_url, queue_name, handler, time_limit_secs=0.1, max_attempts=3):
        await add(redis_url, queue_name, 1)
        await until(lambda: dead_letters_of(raw, queue_name))
    assert len(spans) == 3
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    assert "a thread cannot be stopped" in caplog.text
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter["detail"] == b"JobTimeoutError: [CMQ-313] the handler ran longer than 0.1 s"


async def test_a_time_limit_by_job(redis_url: str, raw: Redis, queue_name: str) -> None:
    """None is no limit; a function that fails costs its own job only."""

    def limit(job: Job) -> float | None:
        return {"short": 0.05, "none": None}[job.payload]

    async def handler(job: Job) -> None:
        await asyncio.sleep(0.2)

    kinds = await _outcomes(
        redis_url, raw, queue_name, handler, "short", "none", "unknown", time_limit_secs=limit, concurrency=1
    )
    assert kinds == ["err", "ok", "err"]
    details = [letter["detail"] for letter in await dead_letters_of(raw, queue_name)]
    assert details == [b"JobTimeoutError: [CMQ-313] the handler ran longer than 0.05 s", b"KeyError: 'unknown'"]


async def test_a_job_over_its_time_limit_is_retried(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        await asyncio.sleep(5 if job.attempt == 0 else 0)

    async with consuming(redis_url, queue_name, handler, time_limit_secs=0.05):
        await add(redis_url, queue_name, 1)
        await until(lambda: _completed(raw, queue_name))
    (completed,) = [event for event in await events_of(raw, queue_name) if event["e"] == "completed"]
    assert completed["attempt"] == "2"


async def _completed(raw: Redis, queue: str) -> bool:
    return any(event["e"] == "completed" for event in await events_of(raw, queue))
