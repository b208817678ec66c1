"""`worker.on`: what is heard, when, and that listeners cannot harm a job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Job, Queue, RedisError, RetryLater, UnrecoverableError, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.servers import free_port
from tests.support.consumers import Gate, Recorder, WorkerProcess, add
from tests.support.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

QUICK: dict[str, Any] = {"read_block_ms": 200, "run_scheduler": False, "shutdown_deadline_secs": 5, "backoff": 1}
EVENTS = (
    "ready active completed failed error closing closed drained paused resumed progress stalled".split()  # noqa: SIM905
)


class Heard(list[Any]):
    """What a worker's listeners were given."""

    def listen(self, worker: Worker, *events: str) -> None:
        for event in events or EVENTS:
            worker.on(event, lambda *given, event=event: self.append((event, *given)))

    def names(self) -> list[str]:
        return [one[0] for one in self]


@contextlib.asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[None]:
    run = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        await worker.close()
        await asyncio.wait_for(run, PATIENCE_S)


async def test_a_job_that_went_well_is_heard_in_order(redis_url: str, queue_name: str) -> None:
    async def handle(job: Job) -> str:
        job.update_progress({"half": True})
        return "value"

    worker = Worker(queue_name, handle, redis_url=redis_url, **QUICK)
    heard = Heard()
    heard.listen(worker)
    async with working(worker):
        await until(lambda: "ready" in heard.names())
        (job_id,) = await add(redis_url, queue_name, 1)
        await until(lambda: "drained" in heard.names())
    assert heard.names() == ["ready", "active", "progress", "completed", "drained", "closing", "closed"]
    assert [one[1].id for one in heard if one[0] in ("active", "progress", "completed")] == [job_id] * 3
    assert heard[2][2] == {"half": True}
    assert heard[3][2] == "value"


async def test_it_is_written_when_it_is_heard(redis_url: str, raw: Redis, queue_name: str) -> None:
    left: list[int] = []
    worker = Worker(queue_name, Recorder(), redis_url=redis_url, **QUICK)

    async def look(job: Job, result: Any) -> None:
        left.append(await raw.xlen(QueueKeys(queue_name).stream))

    worker.on("completed", look)
    await add(redis_url, queue_name, 1)
    async with working(worker):
        await until(lambda: left)
    assert left == [0]


async def test_failures_are_heard_once_for_each_run(redis_url: str, queue_name: str) -> None:
    async def fail(job: Job) -> None:
        if job.attempt == 0:
            raise ValueError("first")
        if job.attempt == 1:
            raise UnrecoverableError("last")

    worker = Worker(queue_name, fail, redis_url=redis_url, **QUICK)
    heard = Heard()
    heard.listen(worker, "failed", "completed")
    await add(redis_url, queue_name, 1)
    async with working(worker):
        await until(lambda: len(heard) == 2)
    assert [(name, job.attempt, str(error)) for name, job, error in heard] == [
        ("failed", 0, "first"),
        ("failed", 1, "last"),
    ]


async def test_a_job_that_is_postponed_has_not_failed(redis_url: str, queue_name: str) -> None:
    async def handle(job: Job) -> None:
        if not seen:
            seen.append(job)
            raise RetryLater(0)

    seen: list[Job] = []
    worker = Worker(queue_name, handle, redis_url=redis_url, **QUICK)
    heard = Heard()
    heard.listen(worker, "failed", "completed", "active")
    await add(redis_url, queue_name, 1)
    async with working(worker):
        await until(lambda: "completed" in heard.names())
    assert heard.names() == ["active", "active", "completed"]


async def test_a_pause_and_its_end_are_heard(redis_url: str, queue_name: str) -> None:
    worker = Worker(queue_name, Recorder(), redis_url=redis_url, **QUICK)
    heard = Heard()
    heard.listen(worker, "paused", "resumed")
    async with Queue(queue_name, redis_url=redis_url) as queue, working(worker):
        await queue.pause()
        await until(lambda: heard.names() == ["paused"])
        await queue.resume()
        await until(lambda: heard.names() == ["paused", "resumed"])


async def test_a_job_of_a_worker_that_was_killed_is_heard_as_stalled(redis_url: str, queue_name: str) -> None:
    (job_id,) = await add(redis_url, queue_name, 1)
    async with Queue(queue_name, redis_url=redis_url) as queue:
        with WorkerProcess(redis_url, queue_name, "sleep:60") as other:

            async def runs() -> bool:
                return (await queue.counts()).active == 1

            await until(runs)
            other.kill()
    worker = Worker(queue_name, Recorder(), redis_url=redis_url, claim_min_idle_ms=500, **QUICK)
    heard = Heard()
    heard.listen(worker, "stalled", "completed")
    async with working(worker):
        await until(lambda: "completed" in heard.names())
    assert heard[0] == ("stalled", job_id)


async def test_drained_is_not_heard_while_jobs_run_or_wait(redis_url: str, queue_name: str) -> None:
    gate = Gate()
    worker = Worker(queue_name, gate, redis_url=redis_url, concurrency=2, **QUICK)
    heard = Heard()
    heard.listen(worker, "completed", "drained")
    await add(redis_url, queue_name, *range(50))
    async with working(worker):
        await until(lambda: len(gate.started) == 2)
        gate.open()
        await until(lambda: "drained" in heard.names())
    assert heard.names() == ["completed"] * 50 + ["drained"]


async def test_an_error_that_ends_the_worker_is_heard(queue_name: str) -> None:
    worker = Worker(queue_name, Recorder(), redis_url=f"redis://127.0.0.1:{free_port()}", **QUICK)
    heard = Heard()
    heard.listen(worker)
    with pytest.raises(RedisError) as caught:
        await worker.run()
    assert heard == [("error", caught.value), ("closed",)]


async def test_what_a_listener_raises_harms_nothing_and_is_logged_once(
    redis_url: str, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def plain(*given: Any) -> None:
        raise RuntimeError("plain listener")

    async def slow(*given: Any) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("async listener")

    seen = Recorder()
    worker = Worker(queue_name, seen, redis_url=redis_url, **QUICK)
    heard = Heard()
    for event in EVENTS:
        worker.on(event, plain).on(event, slow)
    heard.listen(worker, "completed")
    await add(redis_url, queue_name, *range(20))
    with caplog.at_level(logging.ERROR, "chasqui.worker"):
        async with working(worker):
            await until(lambda: len(heard) == 20)
    assert len(seen.jobs) == 20
    said = [record.getMessage() for record in caplog.records if "to 'completed' failed" in record.getMessage()]
    assert len(said) == 2


async def test_once_and_off(redis_url: str, queue_name: str) -> None:
    first, second = Heard(), Heard()
    worker = Worker(queue_name, Recorder(), redis_url=redis_url, **QUICK)
    worker.once("completed", lambda *given: first.append(given)).on("completed", second.append)
    worker.off("completed", second.append)
    others = Heard()
    others.listen(worker, "completed")
    await add(redis_url, queue_name, *range(5))
    async with working(worker):
        await until(lambda: len(others) == 5)
    assert (len(first), len(second)) == (1, 0)


async def test_listeners_may_come_while_it_runs(redis_url: str, queue_name: str) -> None:
    worker = Worker(queue_name, Recorder(), redis_url=redis_url, **QUICK)
    heard = Heard()
    async with working(worker):
        await worker.wait_until_ready()
        heard.listen(worker, "completed")
        await add(redis_url, queue_name, 1)
        await until(lambda: heard)


def test_an_unknown_event_and_what_is_no_function_are_refused() -> None:
    worker = Worker("q", Recorder())
    with pytest.raises(ConfigError, match="no event 'done' of a worker; there are ready"):
        worker.on("done", print)
    with pytest.raises(ConfigError, match="must be a function, got str"):
        worker.on("completed", "print")  # type: ignore[arg-type]
