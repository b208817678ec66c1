"""The blocking queue: every method, from any thread, and an end that leaves nobody waiting."""

from __future__ import annotations

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgpack
import pytest
import redis

from chasqui_engine import (
    ConfigError,
    JobFailedError,
    Producer,
    Queue,
    RepeatPattern,
    ShutdownError,
    SyncQueue,
    UnrecoverableError,
    Worker,
)
from chasqui_engine.admin import QueueAdmin
from chasqui_engine.runtime.clock import monotonic
from tests.support.queues import working

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chasqui_engine import Job


@pytest.fixture
def sync_queue(redis_url: str, queue_name: str) -> Iterator[SyncQueue]:
    with SyncQueue(queue_name, redis_url=redis_url) as queue:
        yield queue


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def test_it_has_every_method_of_the_queue() -> None:
    methods = {name for name, _ in inspect.getmembers(Queue, inspect.iscoroutinefunction) if not name.startswith("_")}
    properties = {name for name, member in vars(Queue).items() if isinstance(member, property)}
    assert methods | properties <= set(dir(SyncQueue))
    assert not any(inspect.iscoroutinefunction(getattr(SyncQueue, name)) for name in methods)


def test_queue_and_producer_have_every_operation_of_the_admin() -> None:
    for one in (Queue, Producer):
        assert {name for name in dir(QueueAdmin) if not name.startswith("_")} - {"connect"} <= {*dir(one)}


@pytest.mark.parametrize("name", ["add", "add_bulk", "list_delayed", "get_job", "upsert_repeatable_job"])
def test_its_methods_take_what_those_of_the_queue_take(name: str) -> None:
    assert inspect.signature(getattr(SyncQueue, name)) == inspect.signature(getattr(Queue, name))
    assert getattr(SyncQueue, name).__doc__ == getattr(Queue, name).__doc__


def test_reading_and_administering(sync_queue: SyncQueue) -> None:
    later = sync_queue.add("mail", 1, delay_ms=60_000)
    sync_queue.add("mail", 2, job_id="now")
    assert [one.job and one.job.id for one in sync_queue.list_delayed()] == [later.id]
    assert sync_queue.reschedule_delayed(later.id, datetime.now(UTC) + timedelta(hours=2))
    assert sync_queue.run_delayed_now(later.id)
    assert {job.job_id for job in sync_queue.list_waiting()} == {"now", later.id}
    assert sync_queue.snapshot().counts.waiting == 2
    assert sync_queue.exists()
    assert sync_queue.delete_dead(["1-1"]) == 0
    assert [event.name for event in sync_queue.page_events()] == ["delayed", "waiting"]


def test_adding_and_cancelling(sync_queue: SyncQueue, client: redis.Redis, queue_name: str) -> None:
    job = sync_queue.add("mail", {"a": 1}, attempts=3)
    assert (job.name, job.data) == ("mail", {"a": 1})
    assert sync_queue.add_unique("mail", 2, job_id="own").id == sync_queue.add_unique("mail", 2, job_id="own").id
    assert [one.data for one in sync_queue.add_bulk([{"name": "n", "data": n} for n in range(3)])] == [0, 1, 2]
    later = sync_queue.add("mail", 3, delay_ms=60_000)
    assert sync_queue.cancel_delayed(later.id)
    assert not sync_queue.cancel_delayed(later.id)
    assert client.xlen(f"{{chasqui:{queue_name}}}:stream") == 5
    assert sync_queue.name == queue_name


def test_repeatables(sync_queue: SyncQueue) -> None:
    job = sync_queue.upsert_repeatable_job("n", 1, repeat=RepeatPattern.every(60_000), limit=2)
    [meta] = sync_queue.get_repeatable_jobs()
    assert (meta.key, meta.limit) == (job.id, 2)
    assert sync_queue.remove_repeatable_by_key(job.id)
    assert sync_queue.get_repeatable_jobs(5) == []


def test_dead_letters_and_results(sync_queue: SyncQueue, client: redis.Redis, queue_name: str) -> None:
    prefix = f"{{chasqui:{queue_name}}}"
    envelope = msgpack.packb(["x", msgpack.packb(1), 1, 3])
    client.xadd(f"{prefix}:dlq", {"d": envelope, "source_id": "1-1", "reason": "malformed"})
    assert [entry["reason"] for entry in sync_queue.peek_dlq()] == ["malformed"]
    assert sync_queue.replay_dlq() == 1
    assert sync_queue.peek_dlq(5) == []
    client.set(f"{prefix}:result:x", msgpack.packb([1, 2]))
    assert sync_queue.get_job_result("x") == [1, 2]
    assert sync_queue.get_job_result_bulk(["nobody", "x"]) == [None, [1, 2]]
    assert sync_queue.wait_for_result("x", timeout=10) == [1, 2]


async def test_waiting_from_several_threads(redis_url: str, queue_name: str) -> None:
    import asyncio

    async def answer(job: Job) -> Any:
        if job.data == 7:
            raise UnrecoverableError("seven")
        return job.data * 2

    def add_and_wait(queue: SyncQueue, n: int) -> Any:
        job = queue.add("n", n)
        try:
            return queue.wait_for_result(job, timeout=30)
        except JobFailedError as err:
            return err.detail

    def from_threads() -> list[Any]:
        with SyncQueue(queue_name, redis_url=redis_url) as queue, ThreadPoolExecutor(16) as threads:
            return list(threads.map(lambda n: add_and_wait(queue, n), range(64)))

    async with working(Worker(queue_name, answer, redis_url=redis_url, store_results=True, read_block_ms=50)):
        answers = await asyncio.to_thread(from_threads)
    assert answers == [n * 2 if n != 7 else "UnrecoverableError: seven" for n in range(64)]


def test_errors_come_through(sync_queue: SyncQueue) -> None:
    with pytest.raises(ConfigError, match="job_id"):
        sync_queue.add_unique("n", 1, job_id=" ")
    with pytest.raises(TimeoutError):
        sync_queue.wait_for_result("nobody", timeout=0.05)
    with pytest.raises(ConfigError, match="queue_name"):
        SyncQueue("")


def test_closing_ends_the_thread_and_is_final(redis_url: str, queue_name: str) -> None:
    queue = SyncQueue(queue_name, redis_url=redis_url)
    queue.add("n", 1)
    assert not queue.is_closed
    assert f"chasqui-queue-{queue_name}" in {thread.name for thread in threading.enumerate()}
    queue.close()
    queue.close()
    assert queue.is_closed
    assert f"chasqui-queue-{queue_name}" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ShutdownError, match=queue_name):
        queue.add("n", 2)


def test_closing_leaves_no_thread_waiting(redis_url: str, queue_name: str) -> None:
    queue = SyncQueue(queue_name, redis_url=redis_url)
    job = queue.add("n", 1)
    errors: list[Exception] = []
    begun = threading.Barrier(9)

    def wait() -> None:
        begun.wait()
        try:
            queue.wait_for_result(job, timeout=60)
        except ShutdownError as err:
            errors.append(err)

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    begun.wait()
    started = monotonic()
    queue.close()
    for thread in threads:
        thread.join(30)
    assert monotonic() - started < 20
    assert len(errors) == 8
