"""Waiting for results: any number of waiters, one subscription, and an answer as soon as there is one."""

from __future__ import annotations

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import (
    ConfigError,
    Job,
    JobFailedError,
    Producer,
    Queue,
    ResultUnavailableError,
    ShutdownError,
    UnrecoverableError,
    Worker,
)
from chasqui_engine.admin import results
from chasqui_engine.runtime.clock import monotonic
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis


async def answer(job: Job) -> Any:
    if job.name == "die":
        raise UnrecoverableError("no use")
    if job.name == "fail":
        raise ValueError("try again")
    return job.payload


def worker(redis_url: str, queue_name: str, **options: Any) -> Worker:
    settings: dict[str, Any] = {"store_results": True, "read_block_ms": 50, **options}
    return Worker(queue_name, answer, redis_url=redis_url, **settings)


def result_key(queue_name: str, job_id: str) -> str:
    return f"{{chasqui:{queue_name}}}:result:{job_id}"


@pytest.mark.parametrize("value", [None, {"total": 3, "ok": [True, b"\x00"]}, 0, ""], ids=repr)
async def test_a_result_is_there_for_who_waits(queue: Queue, redis_url: str, queue_name: str, value: Any) -> None:
    async with working(worker(redis_url, queue_name)):
        job = await queue.add("n", value)
        assert await job.wait_for_result(timeout=20) == value
        # Whoever comes after the end has it just the same, and so has whoever knows only the id.
        assert await job.wait_for_result(timeout=20) == value
        assert await queue.wait_for_result(job.id, timeout=20) == value
        assert await queue.get_job_result(job.id) == value


async def test_a_returned_time_or_decimal_is_a_result_in_the_form_that_every_engine_reads(
    queue: Queue, redis_url: str, queue_name: str
) -> None:
    async def when(job: Job) -> Any:
        return {"at": datetime.fromtimestamp(job.payload, UTC), "cost": Decimal("1.50"), "took": timedelta(seconds=2)}

    async with working(Worker(queue_name, when, redis_url=redis_url, store_results=True, read_block_ms=50)):
        job = await queue.add("n", 0)
        result = await job.wait_for_result(timeout=20)
        assert result == {"at": "1970-01-01T00:00:00+00:00", "cost": "1.50", "took": 2.0}


async def test_none_is_stored_as_a_value(
    queue: Queue, producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    async with working(worker(redis_url, queue_name, result_ttl_ms=90_000)):
        job = await queue.add("n", None)
        await job.wait_for_result(timeout=20)
    assert await raw.get(result_key(queue_name, job.id)) == b"\xc0"
    assert 80 <= await raw.ttl(result_key(queue_name, job.id)) <= 90
    assert await producer.get_result(job.id) == b"\xc0"


async def test_results_by_id(queue: Queue, producer: Producer, raw: Redis, queue_name: str) -> None:
    await raw.set(result_key(queue_name, "a"), msgpack.packb({"x": 1}))
    await raw.set(result_key(queue_name, "b"), msgpack.packb(2))
    assert await queue.get_job_result("a") == {"x": 1}
    assert await queue.get_job_result("nobody") is None
    assert await queue.get_job_result_bulk(["b", "nobody", "a"]) == [2, None, {"x": 1}]
    assert await queue.get_job_result_bulk([]) == []
    assert await producer.get_result_bulk(["a", "nobody"]) == [msgpack.packb({"x": 1}), None]
    many = await producer.get_result_bulk([f"j{n}" for n in range(1200)] + ["b"])
    assert many == [None] * 1200 + [b"\x02"]


async def test_a_job_that_dies_says_so_at_once(queue: Queue, redis_url: str, queue_name: str) -> None:
    async with working(worker(redis_url, queue_name, max_attempts=2)):
        started = monotonic()
        dead, failed = await queue.add("die", 1), await queue.add("fail", 1, backoff=1)
        with pytest.raises(JobFailedError) as death:
            await dead.wait_for_result(timeout=30)
        with pytest.raises(JobFailedError, match="ValueError: try again") as failure:
            await failed.wait_for_result(timeout=30)
        assert monotonic() - started < 15
        with pytest.raises(JobFailedError):
            await failed.wait_for_result(timeout=30)
    error = death.value
    assert (error.job_id, error.reason, error.attempt, error.code) == (dead.id, "unrecoverable", 1, "CMQ-311")
    assert error.detail == "UnrecoverableError: no use"
    assert (failure.value.reason, failure.value.attempt) == ("retries_exhausted", 2)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.job_id, copy.reason, copy.detail, copy.attempt) == (
        error.job_id,
        error.reason,
        error.detail,
        error.attempt,
    )


async def test_a_job_that_lives_again_can_be_waited_for_again(queue: Queue, redis_url: str, queue_name: str) -> None:
    alive = False

    async def recover(job: Job) -> str:
        if not alive:
            raise UnrecoverableError("not yet")
        return "well"

    async with working(Worker(queue_name, recover, redis_url=redis_url, store_results=True, read_block_ms=50)):
        job = await queue.add("n", 1)
        with pytest.raises(JobFailedError):
            await job.wait_for_result(timeout=20)
        alive = True
        assert await queue.replay_dlq() == 1
        assert await job.wait_for_result(timeout=20) == "well"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that believes sooner than usual that a result will not come any more."""
    monkeypatch.setattr(results, "_SWEEP_S", 0.1)
    monkeypatch.setattr(results, "_GRACE_S", 0.1)


@pytest.mark.usefixtures("impatient")
async def test_a_worker_that_stores_nothing_is_told_apart_from_one_that_is_slow(
    queue: Queue, redis_url: str, queue_name: str
) -> None:
    async with working(worker(redis_url, queue_name, store_results=False)):
        first = await queue.add("n", 1)
        with pytest.raises(ResultUnavailableError, match="store_results"):
            await first.wait_for_result(timeout=20)
        # Jobs that completed before anybody came to wait for them are known as well.
        jobs = await queue.add_bulk([{"name": "n", "data": n} for n in range(50)])
        await asyncio.sleep(0.2)
        outcomes = await asyncio.gather(*(job.wait_for_result(timeout=20) for job in jobs), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ResultUnavailableError}


@pytest.mark.usefixtures("impatient")
async def _has_completed(queue: Queue, job_id: str) -> bool:
    info = await queue.get_job(job_id)
    return info.state == "completed"


async def test_the_first_waiter_may_come_after_the_end(redis_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        async with working(worker(redis_url, queue_name, store_results=False)):
            job = await queue.add("n", 1)
            await until(lambda: _has_completed(queue, job.id))
        with pytest.raises(ResultUnavailableError):
            await job.wait_for_result(timeout=20)


@pytest.mark.usefixtures("impatient")
async def test_workers_without_events_have_results_too(queue: Queue, redis_url: str, queue_name: str) -> None:
    async with working(worker(redis_url, queue_name, events_enabled=False)):
        job = await queue.add("n", 1, delay_ms=50)
        assert await job.wait_for_result(timeout=20) == 1


async def test_nothing_within_the_time_is_a_timeout(queue: Queue) -> None:
    job = await queue.add("n", 1)
    with pytest.raises(TimeoutError):
        await job.wait_for_result(timeout=0.05)


async def test_what_cannot_be_waited_for_is_named(queue: Queue) -> None:
    job = await queue.add("n", 1)
    for options, field in (
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"poll_interval": -1}, "poll_interval"),
    ):
        with pytest.raises(ConfigError, match=field):
            await job.wait_for_result(**options)
    with pytest.raises(ConfigError, match="timeout"):
        await queue.wait_for_result(job.id, timeout=0)
    with pytest.raises(RuntimeError, match="a queue returned"):
        await Job.new(1).wait_for_result()


async def connections_of(raw: Redis, queue_name: str, role: str = "producer") -> list[dict[str, str]]:
    return [client for client in await raw.client_list() if client["name"] == f"chasqui-{role}:{queue_name}"]


async def test_two_thousand_waiters_share_one_subscription(
    queue: Queue, redis_url: str, raw: Redis, queue_name: str
) -> None:
    jobs = await queue.add_bulk([{"name": "n", "data": n} for n in range(2000)])
    waiters = [asyncio.create_task(job.wait_for_result(timeout=40)) for job in jobs]
    reads = asyncio.create_task(jobs[0].wait_for_result(timeout=40))
    await until(lambda: _two(raw, queue_name))
    before = (await raw.info("commandstats")).get("cmdstat_get", {"calls": 0})["calls"]
    async with working(worker(redis_url, queue_name)):
        assert await asyncio.gather(*waiters) == list(range(2000))
        assert await reads == 0
        assert len(await connections_of(raw, queue_name)) == 2
    after = (await raw.info("commandstats")).get("cmdstat_get", {"calls": 0})["calls"]
    assert after - before < 500  # they do not poll one key each


async def _two(raw: Redis, queue_name: str) -> bool:
    return len(await connections_of(raw, queue_name)) == 2


async def test_a_waiter_that_is_cancelled_leaves_the_others_alone(
    queue: Queue, redis_url: str, queue_name: str
) -> None:
    job = await queue.add("n", "x")
    one, other = (asyncio.create_task(job.wait_for_result(timeout=30)) for _ in range(2))
    await asyncio.sleep(0.05)
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    async with working(worker(redis_url, queue_name)):
        assert await other == "x"
        assert await job.wait_for_result(timeout=20) == "x"


async def test_waiters_survive_the_loss_of_every_connection(
    queue: Queue, redis_url: str, raw: Redis, queue_name: str
) -> None:
    jobs = await queue.add_bulk([{"name": "n", "data": n} for n in range(20)])
    waiters = [asyncio.create_task(job.wait_for_result(timeout=30)) for job in jobs]
    await until(lambda: _two(raw, queue_name))
    for client in await connections_of(raw, queue_name):
        await raw.client_kill_filter(_id=client["id"])
    async with working(worker(redis_url, queue_name)):
        assert await asyncio.gather(*waiters) == list(range(20))


async def test_closing_tells_those_who_wait(queue: Queue) -> None:
    job = await queue.add("n", 1)
    early = asyncio.create_task(job.wait_for_result(timeout=30))
    await asyncio.sleep(0.05)
    late = asyncio.create_task(job.wait_for_result(timeout=30))
    await queue.close()
    for waiter in (early, late):
        with pytest.raises(ShutdownError):
            await waiter
