"""What a queue looks like: its counts, its workers, its rate; and where one job is, from its first day to its last."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import (
    ConfigError,
    Consumer,
    ConsumerConfig,
    EncodeError,
    Job,
    Producer,
    Queue,
    QueueEvent,
    QueueEvents,
    RetryConfig,
    UnrecoverableError,
)
from chasqui_engine._redis.client.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin import workers as workers_of_queues
from chasqui_engine.admin.job_lookup import JobInfo, JobState, find_job
from chasqui_engine.admin.snapshot import QueueCounts
from tests.support.queues import events_of, running, server_ms, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from redis.asyncio import Redis

MINUTE_MS = 60_000


def consuming(
    redis_url: str, queue_name: str, handler: Any, **options: Any
) -> AbstractAsyncContextManager[asyncio.Event]:
    settings = {"block_ms": 50, "run_scheduler": False, **options}
    config = ConsumerConfig(queue_name=queue_name, **settings)
    return running(lambda shutdown: Consumer(redis_url, config).run(handler, shutdown))


async def test_a_queue_that_was_never_used(queue: Queue) -> None:
    assert await queue.counts() == QueueCounts(
        waiting=0,
        active=0,
        delayed=0,
        dead=0,
        repeatables=0,
        paused=False,
        oldest_waiting_ms=0,
        delayed_lag_ms=0,
        repeatable_lag_ms=0,
    )
    assert await queue.get_job("nobody") == JobInfo(id="nobody", state=JobState.UNKNOWN)


async def test_counts_of_every_kind(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    go_on = asyncio.Event()
    begun: list[str] = []

    async def handler(job: Job) -> None:
        if job.name == "bad":
            raise UnrecoverableError("no use")
        begun.append(job.id)
        await go_on.wait()

    await queue.add("late", 1, delay_ms=MINUTE_MS)
    await queue.upsert_repeatable_job("again", 1, repeat={"kind": "every", "interval_ms": MINUTE_MS})
    await queue.add("bad", 1)
    async with consuming(redis_url, queue_name, handler, concurrency=2, delayed_enabled=False):
        await queue.add_bulk([{"name": "long", "data": n} for n in range(5)])
        await until(lambda: len(begun) == 2)

        async def settled() -> bool:
            return (await queue.counts()).dead == 1

        await until(settled)
        counts = await queue.counts()
        assert counts.waiting + counts.active == 5
        assert counts.active >= 2
        assert (counts.delayed, counts.dead, counts.repeatables) == (1, 1, 1)
        go_on.set()
        await until(lambda: stream_is_empty(raw, queue_name))
    counts = await queue.counts()
    assert (counts.waiting, counts.active, counts.oldest_waiting_ms) == (0, 0, 0)


async def test_how_long_the_first_has_waited(queue: Queue, raw: Redis, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    now = await server_ms(raw)
    await raw.xadd(keys.stream, {"d": b"x"}, id=f"{now - 5000}-0")
    await raw.xadd(keys.stream, {"d": b"x"}, id=f"{now - 3000}-0")
    await raw.zadd(keys.delayed, {b"\0\0\0\0x": now - 2000, b"\0\0\0\0y": now + 9000})
    await raw.zadd(keys.repeat, {b"overdue": now - 4000, b"later": now + 9000})
    counts = await queue.counts()
    assert 5000 <= counts.oldest_waiting_ms < 15_000
    assert 2000 <= counts.delayed_lag_ms < 12_000
    assert 4000 <= counts.repeatable_lag_ms < 14_000
    await raw.xgroup_create(keys.stream, "default", "0")
    await raw.xreadgroup("default", "c", {keys.stream: ">"}, count=1)
    counts = await queue.counts()
    assert (counts.waiting, counts.active) == (1, 1)
    assert 3000 <= counts.oldest_waiting_ms < 5000


async def test_only_living_workers_are_counted(
    producer: Producer, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers_of_queues, "SILENT_MS", 200)
    stream = QueueKeys(queue_name).stream
    await producer.add_bulk([1, 2])
    assert (await producer.snapshot()).lacks_workers
    await raw.xgroup_create(stream, "default", "0")
    await raw.xreadgroup("default", "holds a job", {stream: ">"}, count=1)
    await raw.xgroup_createconsumer(stream, "default", "holds none")
    seen = await producer.snapshot()
    assert (seen.workers, seen.lacks_workers) == (2, False)
    await asyncio.sleep(0.4)
    seen = await producer.snapshot()
    assert (len(seen.consumers), seen.workers, seen.lacks_workers) == (2, 0, True)
    await producer.pause()
    seen = await producer.snapshot()
    assert (seen.workers, seen.lacks_workers) == (1, False)


async def test_another_group(queue: Queue, raw: Redis, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    job = await queue.add("n", 1)
    await raw.xgroup_create(keys.stream, "mine", "0")
    await raw.xreadgroup("mine", "c1", {keys.stream: ">"})
    assert (await queue.counts()).active == 0
    assert (await queue.counts(group="mine")).active == 1
    info = await queue.get_job(job.id, group="mine")
    assert (info.state, info.consumer, info.attempt) == (JobState.ACTIVE, "c1", 1)


async def test_a_snapshot_tells_workers_and_rate(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    go_on = asyncio.Event()

    async def handler(job: Job) -> None:
        if job.payload == "wait":
            await go_on.wait()

    async with consuming(redis_url, queue_name, handler, consumer_id="w1"):
        await producer.add_bulk(list(range(60)))
        await until(lambda: stream_is_empty(raw, queue_name))
        await producer.add("wait")

        async def running_one() -> bool:
            return (await producer.counts()).active == 1

        await until(running_one)
        seen = await producer.snapshot()
        go_on.set()
    assert (seen.name, seen.group, seen.counts.active) == (queue_name, "default", 1)
    [worker] = seen.consumers
    assert (worker.name, worker.active) == ("w1", 1)
    assert seen.throughput.window_ms == 60_000
    assert seen.throughput.completed_per_s == pytest.approx(1.0)
    assert seen.throughput.dead_per_s == 0


async def test_the_life_of_a_job_that_goes_well(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    go_on = asyncio.Event()

    async def handler(job: Job) -> str:
        await job.update_progress({"done": 1, "of": 2})
        await go_on.wait()
        return "fine"

    job = await queue.add("mail", {"to": "ada"}, delay_ms=MINUTE_MS, job_id="own")
    info = await queue.get_job("own")
    assert (info.state, info.name, info.payload, info.attempt) == (JobState.DELAYED, "mail", {"to": "ada"}, 0)
    assert info.run_at_ms is not None
    assert abs(info.run_at_ms - job.created_at_ms - MINUTE_MS) < 10_000
    await queue.cancel_delayed("own")
    assert (await queue.get_job("own")).payload is None
    await queue.add("mail", {"to": "ada"}, job_id="own")
    info = await queue.get_job("own")
    assert (info.state, info.attempt, info.run_at_ms, info.last_error) == (JobState.WAITING, 0, None, None)
    async with consuming(redis_url, queue_name, handler, consumer_id="w1", store_results=True):

        async def told() -> bool:
            return (await queue.get_job("own")).progress is not None

        await until(told)
        info = await queue.get_job("own")
        assert (info.state, info.attempt, info.consumer) == (JobState.ACTIVE, 1, "w1")
        assert info.progress == {"done": 1, "of": 2}
        go_on.set()
        await until(lambda: stream_is_empty(raw, queue_name))
    info = await queue.get_job("own")
    assert (info.state, info.name, info.attempt) == (JobState.COMPLETED, "mail", 1)


async def test_a_job_that_completed_without_a_result(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        return None

    job = await queue.add("n", 1)
    async with consuming(redis_url, queue_name, handler):
        await until(lambda: stream_is_empty(raw, queue_name))
    info = await queue.get_job(job.id)
    assert (info.state, info.attempt, info.name) == (JobState.COMPLETED, 1, "n")


async def test_the_life_of_a_job_that_fails(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        raise ValueError(f"no luck in run {job.attempt + 1}")

    job = await queue.add("mail", 1, attempts=2, backoff=MINUTE_MS)
    slow = RetryConfig(initial_backoff_ms=MINUTE_MS, max_backoff_ms=MINUTE_MS, jitter_ms=0)
    async with consuming(redis_url, queue_name, handler, retry=slow):

        async def failed() -> bool:
            return (await queue.get_job(job.id)).state is JobState.FAILED

        await until(failed)
        info = await queue.get_job(job.id)
        assert (info.attempt, info.last_error, info.name) == (1, "ValueError: no luck in run 1", "mail")
        assert info.run_at_ms is not None
        assert info.run_at_ms > job.created_at_ms + MINUTE_MS / 2
        async with await Producer.connect(redis_url, _config(queue_name)) as producer:
            assert await producer.run_delayed_now(job.id)

        async def dead() -> bool:
            return (await queue.get_job(job.id)).state is JobState.DEAD

        await until(dead)
    info = await queue.get_job(job.id)
    assert (info.attempt, info.reason, info.last_error) == (2, "retries_exhausted", "ValueError: no luck in run 2")
    await raw.delete(QueueKeys(queue_name).failure(job.id))
    info = await queue.get_job(job.id)
    assert (info.state, info.attempt, info.reason) == (JobState.DEAD, 2, "retries_exhausted")
    await raw.delete(QueueKeys(queue_name).dlq)
    info = await queue.get_job(job.id)
    assert (info.state, info.attempt, info.reason) == (JobState.DEAD, 2, "retries_exhausted")
    await queue.replay_dlq()


def _config(queue_name: str) -> Any:
    from chasqui_engine import ProducerConfig

    return ProducerConfig(queue_name=queue_name)


async def test_a_search_is_bounded(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Of 3000 jobs, a search that may look at 1000 finds the first 500 and the last."""
    keys = QueueKeys(queue_name)
    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add_bulk([{"name": "n", "data": n, "job_id": f"job-{n}"} for n in range(3000)])
    connector = Connector(redis_url, queue_name, "test")
    link = await connector.link(A_MOMENT_S).connect()
    try:
        states = {
            n: (await find_job(link, keys, "default", f"job-{n}", looked_at=1000)).state for n in (0, 499, 1500, 2999)
        }
    finally:
        await connector.close()
    assert states == {
        0: JobState.WAITING,
        499: JobState.WAITING,
        1500: JobState.UNKNOWN,
        2999: JobState.WAITING,
    }


async def test_ids_that_look_alike(queue: Queue) -> None:
    await queue.add("n", 1, job_id="a" * 40)
    assert (await queue.get_job("a" * 39)).state is JobState.UNKNOWN
    assert (await queue.get_job("a" * 40)).state is JobState.WAITING
    for job_id in ("x", "é" * 20, "y" * 300):
        await queue.add("n", 1, job_id=job_id, delay_ms=MINUTE_MS)
        assert (await queue.get_job(job_id)).state is JobState.DELAYED
    with pytest.raises(ConfigError):
        await queue.get_job(" ")


async def test_a_delayed_job_without_an_id_of_its_own(queue: Queue) -> None:
    job = await queue.add("später", 7, delay_ms=MINUTE_MS)
    info = await queue.get_job(job.id)
    assert (info.state, info.name, info.payload) == (JobState.DELAYED, "später", 7)


async def test_entries_that_cannot_be_read_do_not_disturb(queue: Queue, raw: Redis, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    await raw.xadd(keys.stream, {"x": b"y"})
    await raw.xadd(keys.stream, {"d": b""})
    await raw.zadd(keys.delayed, {b"": 1, b"abc": 2, b"\xff\xff\xff\xff": 3})
    await raw.xadd(keys.dlq, {"reason": b"malformed"})
    await raw.xadd(keys.events, {b"\xff": b"\xfe"})
    job = await queue.add("n", 1)
    assert (await queue.get_job(job.id)).state is JobState.WAITING
    assert (await queue.get_job("nobody")).state is JobState.UNKNOWN


async def test_delayed_jobs_are_listed_moved_and_run(producer: Producer, raw: Redis, queue_name: str) -> None:
    await producer.add_in_with_id("own", 60, {"a": 1})
    minted = await producer.add_in(30, 2)
    listed = await producer.list_delayed()
    assert [entry.job.id for entry in listed if entry.job] == [minted, "own"]
    assert [len(await producer.list_delayed(n)) for n in (0, 1, 5)] == [0, 1, 2]
    [second] = await producer.list_delayed(1, start=1)
    assert second.job is not None
    assert second.job.id == "own"
    tomorrow = (await server_ms(raw)) / 1000 + 86_400
    assert await producer.reschedule_delayed(minted, tomorrow)
    assert await producer.reschedule_delayed("own", tomorrow + 1)
    keys = QueueKeys(queue_name)
    assert await raw.ttl(keys.taken("own")) > 86_400
    assert await raw.ttl(keys.delayed_index("own")) > 86_400
    assert [entry.run_at_ms for entry in await producer.list_delayed()] == [
        round(tomorrow * 1000),
        round((tomorrow + 1) * 1000),
    ]
    assert not await producer.reschedule_delayed("nobody", tomorrow)
    assert await producer.run_delayed_now("own")
    assert not await producer.run_delayed_now("own")
    assert (await producer.get_job("own")).state is JobState.WAITING
    assert await raw.exists(keys.delayed_index("own")) == 0
    assert [event["e"] for event in await events_of(raw, queue_name)] == ["delayed", "delayed", "waiting"]


async def test_dead_letters_one_by_one(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        raise UnrecoverableError("no use")

    await producer.add_bulk(list(range(5)))
    async with consuming(redis_url, queue_name, handler):
        await until(lambda: stream_is_empty(raw, queue_name))
    first, second, *rest = await producer.peek_dlq()
    assert await producer.replay_dead([second]) == 1
    assert await producer.replay_dead([second]) == 0
    assert await producer.delete_dead([first.dlq_id, second.dlq_id]) == 1
    assert await producer.delete_dead([]) == 0
    assert [entry.dlq_id for entry in await producer.page_dlq(None, 2)] == [entry.dlq_id for entry in rest[:2]]
    assert [entry.dlq_id for entry in await producer.page_dlq(rest[1].dlq_id)] == [rest[2].dlq_id]
    assert (await producer.counts()).waiting == 1


async def test_the_queues_of_a_server(producer: Producer, redis_url: str, raw: Redis, queue_name: str) -> None:
    await producer.add_in(60, 1)
    connector = Connector(redis_url, "whatever", "test")
    try:
        names = await stats.list_queue_names(await connector.link(A_MOMENT_S).connect())
    finally:
        await connector.close()
    assert queue_name in names
    assert names == sorted(set(names))
    assert "whatever" not in names


async def test_progress_is_told_from_coroutines_and_threads_in_its_place(
    queue: Queue, redis_url: str, raw: Redis, queue_name: str
) -> None:
    async def in_the_loop(job: Job) -> None:
        for n in range(3):
            await job.update_progress(n)
        job.update_progress("done")

    def in_a_thread(job: Job) -> None:
        for n in range(3):
            job.update_progress(n)
        job.update_progress("done")

    for handler in (in_the_loop, in_a_thread):
        job = await queue.add("n", 1)
        async with consuming(redis_url, queue_name, handler):
            await until(lambda: stream_is_empty(raw, queue_name))
        story = [event for event in await events_of(raw, queue_name) if event["id"] == job.id]
        assert [event["e"] for event in story] == ["active", *["progress"] * 4, "completed"]
        assert [event["progress"] for event in story if event["e"] == "progress"] == ["0", "1", "2", '"done"']
    seen: list[QueueEvent] = []
    async with QueueEvents(queue_name, redis_url=redis_url, last_event_id="0") as events:
        async for event in events:
            if event.name == "progress":
                seen.append(event)
            if len(seen) == 4:
                break
    assert [event.fields["progress"] for event in seen] == [0, 1, 2, "done"]
    assert {event.job_name for event in seen} == {"n"}


async def test_progress_without_events_is_for_nobody(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        await job.update_progress(1)

    await queue.add("n", 1)
    async with consuming(redis_url, queue_name, handler, events_enabled=False):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert await events_of(raw, queue_name) == []


@pytest.mark.parametrize("progress", [object(), float("nan"), "x" * 5000])
async def test_a_progress_that_cannot_be_told(redis_url: str, queue_name: str, progress: Any) -> None:
    errors: list[Exception] = []

    async def handle(job: Job) -> None:
        try:
            job.update_progress(progress)
        except EncodeError as err:
            errors.append(err)

    config = ConsumerConfig(queue_name=queue_name)
    async with (
        running(lambda stop: Consumer(redis_url, config).run(handle, stop)),
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        await queue.add("n", 1)
        await until(lambda: errors)


async def test_progress_needs_a_handlers_job(queue: Queue) -> None:
    job = await queue.add("n", 1)
    with pytest.raises(RuntimeError, match="handler"):
        job.update_progress(1)
