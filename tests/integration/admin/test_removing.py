"""Deleting jobs: one, all that wait, those of an age, a queue; what runs is never taken away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import (
    ConfigError,
    JobState,
    Producer,
    ProducerConfig,
    Queue,
    QueueBusyError,
    RepeatPattern,
    UnrecoverableError,
    Worker,
)
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.queues import delayed_jobs, events_of, keys_of, server_ms, waiting_jobs, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

MINUTE_MS = 60_000
NOWHERE = {"delayed": False, "stream": False, "dlq": False, "result": False, "active": False}


class Gate:
    """A handler that runs until it is let go, dies for the name `dies`, and returns its payload."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.open = asyncio.Event()

    async def __call__(self, job: Job) -> Any:
        self.begun.append(job.id)
        if job.name == "dies":
            raise UnrecoverableError("no")
        if job.name == "waits":
            await self.open.wait()
        self.ended.append(job.id)
        return job.data


def worker_of(queue: Queue, redis_url: str, handler: Gate, **options: Any) -> Worker:
    return Worker(queue.name, handler, redis_url=redis_url, read_block_ms=50, store_results=True, **options)


async def is_gone(queue: Queue, job_id: str) -> bool:
    return (await queue.get_job(job_id, whole=True)).state is JobState.UNKNOWN


# --- one job ---


async def test_a_waiting_job_is_removed_and_its_id_is_free(queue: Queue, raw: Redis) -> None:
    await queue.add("n", 1)
    await queue.add("n", 2, job_id="own")
    assert await queue.remove_report("own") == {**NOWHERE, "stream": True}
    assert await is_gone(queue, "own")
    assert await queue.remove("own") == 0
    assert not await raw.exists(QueueKeys(queue.name).taken("own"))
    await queue.add("n", 3, job_id="own")
    assert [job.payload for job in await waiting_jobs(raw, queue.name)] == [1, 3]


async def test_a_removal_is_an_event(queue: Queue, raw: Redis) -> None:
    job = await queue.add("mail", 1)
    assert await queue.remove(job.id) == 1
    assert await events_of(raw, queue.name) == [
        {"e": "removed", "id": job.id, "n": "mail", "prev": "waiting"},
        {"e": "drained", "id": ""},
    ]


async def test_a_promoted_job_that_was_removed_is_unknown(queue: Queue) -> None:
    await queue.add("n", 1, job_id="later", delay_ms=MINUTE_MS)
    assert await queue.run_delayed_now("later")
    assert (await queue.get_job("later")).state is JobState.WAITING
    assert await queue.remove("later") == 1
    assert await is_gone(queue, "later")


async def test_a_delayed_job_is_removed(queue: Queue, raw: Redis) -> None:
    await queue.add("n", 1, job_id="own", delay_ms=MINUTE_MS)
    minted = await queue.add("n", 2, delay_ms=MINUTE_MS)
    for job_id in ("own", minted.id):
        assert await queue.remove_report(job_id) == {**NOWHERE, "delayed": True}
        assert await is_gone(queue, job_id)
    assert await keys_of(raw, queue.name) == {QueueKeys(queue.name).events}


async def test_results_and_dead_letters_are_removed(queue: Queue, redis_url: str, raw: Redis) -> None:
    async with working(worker_of(queue, redis_url, Gate())):
        done = await queue.add("n", 1, job_id="done")
        assert await done.wait_for_result(timeout=10) == 1
        await queue.add("dies", 2, job_id="dead")
        await until(lambda: raw.xlen(queue.dlq_key))
        assert await queue.remove_report("done") == {**NOWHERE, "result": True}
        assert await queue.remove_report("dead") == {**NOWHERE, "dlq": True}
        assert await queue.get_job_result("done") is None
        keys = QueueKeys(queue.name)
        assert await raw.exists(keys.failure("dead"), keys.taken("done"), keys.taken("dead"), keys.result("done")) == 0
        assert await raw.xlen(keys.dlq) == 0


async def test_a_running_job_is_left_alone(queue: Queue, redis_url: str) -> None:
    handler = Gate()
    async with working(worker_of(queue, redis_url, handler)):
        job = await queue.add("waits", 1, job_id="own")
        await until(lambda: handler.begun)
        assert await queue.remove_report("own") == {**NOWHERE, "active": True}
        assert await queue.remove("own") == 0
        handler.open.set()
        assert await job.wait_for_result(timeout=10) == 1


async def test_what_another_group_runs_is_left_alone(queue: Queue, raw: Redis) -> None:
    job = await queue.add("n", 1)
    await queue.add("n", 2)
    await raw.xgroup_create(queue.stream_key, "others", "0")
    await raw.xreadgroup("others", "somebody", {queue.stream_key: ">"}, count=1)
    assert await queue.remove_report(job.id) == {**NOWHERE, "active": True}
    assert await queue.drain() == 1
    assert [job.payload for job in await waiting_jobs(raw, queue.name)] == [1]


async def test_what_a_worker_had_when_it_was_deleted_by_hand_is_left_alone(queue: Queue, raw: Redis) -> None:
    """Its handler may still be running, and ends the job if it does."""
    job = await queue.add("n", 1)
    await raw.xgroup_create(queue.stream_key, "default", "0")
    await raw.xreadgroup("default", "somebody", {queue.stream_key: ">"})
    await raw.xgroup_delconsumer(queue.stream_key, "default", "somebody")
    assert await queue.remove_report(job.id) == {**NOWHERE, "active": True}
    assert await queue.drain() == 0


async def test_a_job_behind_many_others_is_found(queue: Queue, raw: Redis) -> None:
    """Also large ones, of which a few are looked at at a time."""
    await queue.add_bulk([{"name": "n", "data": n} for n in range(1200)])
    await queue.add_bulk([{"name": "n", "data": "x" * 900_000} for _ in range(20)])
    last = await queue.add("n", 1)
    assert await queue.remove(last.id) == 1
    assert await raw.xlen(queue.stream_key) == 1220


async def test_an_id_that_begins_another_is_not_taken_for_it(queue: Queue) -> None:
    await queue.add("n", 1, job_id="job-10")
    await queue.add("n", 1, job_id="job-11", delay_ms=MINUTE_MS)
    assert await queue.remove("job-1") == 0
    assert await queue.get_job_counts("waiting", "delayed") == {"waiting": 1, "delayed": 1}


async def test_an_id_that_no_job_can_have_is_named(queue: Queue) -> None:
    with pytest.raises(ConfigError, match="id"):
        await queue.remove("")


# --- drain ---


async def test_drain_leaves_what_runs_and_what_has_ended(queue: Queue, redis_url: str, raw: Redis) -> None:
    handler = Gate()
    async with working(worker_of(queue, redis_url, handler, concurrency=2)):
        running = [await queue.add("waits", n) for n in range(2)]
        await until(lambda: len(handler.begun) == 2)
        # What a worker has fetched ahead counts as running; the rest waits.
        await queue.pause()
        await asyncio.sleep(0.5)
        await queue.add_bulk([{"name": "n", "data": n} for n in range(1200)])
        await queue.add("n", 1, delay_ms=MINUTE_MS)
        assert await queue.drain(delayed=False) == 1200
        assert await queue.get_job_counts("waiting", "active", "delayed") == {"waiting": 0, "active": 2, "delayed": 1}
        assert await queue.drain() == 1
        await queue.resume()
        handler.open.set()
        assert [await job.wait_for_result(timeout=10) for job in running] == [0, 1]
    assert await raw.xlen(queue.stream_key) == 0
    assert len(handler.begun) == 2


async def test_drain_frees_every_id(queue: Queue, raw: Redis) -> None:
    for delay_ms in (None, MINUTE_MS):
        jobs = [{"name": "n", "data": n, "job_id": f"own-{n}", "delay_ms": delay_ms} for n in range(700)]
        await queue.add_bulk(jobs)
        assert await queue.drain() == 700
        assert await keys_of(raw, queue.name) <= {queue.stream_key, QueueKeys(queue.name).events}
    assert await queue.drain() == 0


async def test_drain_of_a_queue_that_is_not_there(queue: Queue) -> None:
    assert await queue.drain() == 0
    assert not await queue.exists()


async def test_drain_takes_what_cannot_be_read(queue: Queue, raw: Redis) -> None:
    await raw.xadd(queue.stream_key, {"x": "y"})
    await raw.xadd(queue.stream_key, {"d": b"\xc1"})
    await raw.zadd(queue.delayed_key, {b"": 1, b"\xff\xff\xff\xffxx": 2, b"\x00\x00\x00\x00\xc1": float("inf")})
    assert await queue.drain() == 5


async def test_large_jobs_are_drained_a_few_at_a_time(queue: Queue) -> None:
    large = "x" * 900_000
    await queue.add_bulk([{"name": "n", "data": large} for _ in range(20)])
    await queue.add_bulk([{"name": "n", "data": large, "delay_ms": MINUTE_MS} for _ in range(20)])
    assert await queue.drain() == 40


async def test_drain_and_workers_exclude_each_other(queue: Queue, redis_url: str) -> None:
    """Each job is run or drained, never both and never neither."""
    handler = Gate()
    drained = 0
    async with working(worker_of(queue, redis_url, handler, concurrency=20)):
        for _ in range(20):
            await queue.add_bulk([{"name": "n", "data": n} for n in range(300)])
            drained += await queue.drain()
        await until(lambda: _is_empty(queue))
    assert len(handler.ended) == len(set(handler.ended))
    assert len(handler.ended) + drained == 6000


async def _is_empty(queue: Queue) -> bool:
    counts = await queue.get_job_counts("waiting", "active")
    return not any(counts.values())


# --- clean ---


async def test_clean_takes_the_oldest_up_to_a_limit(queue: Queue, raw: Redis) -> None:
    ids = [(await queue.add("n", n)).id for n in range(8)]
    later = [(await queue.add("n", n, delay_ms=MINUTE_MS + n)).id for n in range(8)]
    assert await queue.clean(MINUTE_MS, 100, "waiting") == []
    assert await queue.clean(MINUTE_MS, 100, "delayed") == []
    await asyncio.sleep(0.01)
    assert await queue.clean(0, 3, "waiting") == ids[:3]
    assert await queue.clean(0, 3, "delayed") == later[:3]
    assert [job.id for job in await waiting_jobs(raw, queue.name)] == ids[3:]
    assert [job.id for job, _ in await delayed_jobs(raw, queue.name)] == later[3:]
    assert await queue.clean(0, 0, "waiting") == []


async def test_clean_goes_by_the_age_of_each(queue: Queue, raw: Redis) -> None:
    old_ms = await server_ms(raw) - 2 * MINUTE_MS
    for n in range(700):
        await raw.xadd(
            queue.dlq_key, {"d": b"\x94\xa1j\xc4\x01\xc0\x01\x00", "reason": "malformed"}, id=f"{old_ms}-{n}"
        )
    await raw.xadd(queue.dlq_key, {"d": b"\x94\xa3new\xc4\x01\xc0\x01\x00", "reason": "malformed"})
    await raw.set(QueueKeys(queue.name).failure("j"), b"x")
    assert await queue.clean(MINUTE_MS, 1000, "failed") == ["j"] * 700
    assert (await queue.get_job_counts("failed"))["failed"] == 1
    assert not await raw.exists(QueueKeys(queue.name).failure("j"))


async def test_clean_of_delayed_jobs_passes_over_younger_ones(queue: Queue, raw: Redis) -> None:
    young = [(await queue.add("n", n, delay_ms=1000 + n)).id for n in range(3)]
    old = b"\x00\x00\x00\x00\x94\xa3old\xc4\x01\xc0\x01\x00"
    await raw.zadd(queue.delayed_key, {old: await server_ms(raw) + MINUTE_MS, b"unreadable": 1})
    assert await queue.clean(MINUTE_MS, 10, "delayed") == ["old"]
    assert [one.job.id for one in await queue.list_delayed() if one.job] == young


async def test_clean_of_results(queue: Queue, redis_url: str) -> None:
    async with working(worker_of(queue, redis_url, Gate())):
        jobs = [await queue.add("n", n) for n in range(5)]
        for job in jobs:
            await job.wait_for_result(timeout=10)
    assert await queue.get_job_counts("completed") == {"completed": 5}
    cleaned = await queue.clean(0, 3)
    assert len(cleaned) == 3
    assert set(cleaned) <= {job.id for job in jobs}
    assert await queue.get_job_counts("completed") == {"completed": 2}


async def test_clean_leaves_what_runs(queue: Queue, redis_url: str) -> None:
    handler = Gate()
    async with working(worker_of(queue, redis_url, handler)):
        job = await queue.add("waits", 1)
        await until(lambda: handler.begun)
        assert await queue.clean(0, 10, "active") == []
        assert await queue.clean(0, 10, "waiting") == []
        handler.open.set()
        assert await job.wait_for_result(timeout=10) == 1


@pytest.mark.parametrize(("arguments", "field"), [((-1, 1), "grace_ms"), ((0, -1), "limit"), ((0, 1, "x"), "state")])
async def test_clean_names_what_is_wrong(queue: Queue, arguments: tuple[Any, ...], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        await queue.clean(*arguments)


# --- obliterate ---


async def test_obliterate_leaves_nothing(queue: Queue, redis_url: str, raw: Redis) -> None:
    async with working(worker_of(queue, redis_url, Gate())):
        await (await queue.add("n", 1, job_id="done")).wait_for_result(timeout=10)
        await queue.add("dies", 2, job_id="dead")
        await until(lambda: raw.xlen(queue.dlq_key))
    await queue.add("n", 3, job_id="waiting")
    await queue.add("n", 4, job_id="later", delay_ms=MINUTE_MS)
    await queue.upsert_repeatable_job("n", 5, repeat=RepeatPattern.every(MINUTE_MS))
    await queue.pause()
    before = await keys_of(raw, queue.name)
    assert await queue.obliterate() == len(before)
    assert await keys_of(raw, queue.name) == set()
    assert await queue.obliterate() == 0
    await queue.add("n", 6, job_id="done")
    assert await queue.get_job_counts("waiting") == {"waiting": 1}


async def test_obliterate_of_a_queue_whose_name_begins_another_or_is_a_pattern(redis_url: str, queue_name: str) -> None:
    async with (
        Queue(f"{queue_name}*", redis_url=redis_url) as pattern,
        Queue(f"{queue_name}s", redis_url=redis_url) as other,
    ):
        for queue in (pattern, other):
            await queue.add("n", 1, job_id="own")
        assert await pattern.obliterate() == 2
        await other.add("n", 1, job_id="own")
        assert other.added == 1
        assert await other.get_job_counts("waiting") == {"waiting": 1}
        assert await other.obliterate() == 2


async def test_obliterate_refuses_while_jobs_run(queue: Queue, redis_url: str, raw: Redis) -> None:
    handler = Gate()
    async with working(worker_of(queue, redis_url, handler)):
        await queue.add("waits", 1)
        await until(lambda: handler.begun)
        before = await keys_of(raw, queue.name)
        with pytest.raises(QueueBusyError, match="1 running job"):
            await queue.obliterate()
        assert await keys_of(raw, queue.name) >= before
        assert await queue.obliterate(force=True) >= 2
        handler.open.set()
        await until(lambda: handler.ended)
        # The worker goes on with the queue that is made anew.
        job = await queue.add("n", 2)
        assert await job.wait_for_result(timeout=20) == 2


# --- pages and counts ---


@pytest.mark.parametrize("state", ["waiting", "delayed", "failed", "active"])
async def test_pages_give_every_job_once(queue: Queue, raw: Redis, state: str) -> None:
    delay_ms = 1_900_000_000_000 if state == "delayed" else None
    ids = []
    for n in range(25):
        if state == "delayed":
            member = b"\x00\x00\x00\x00\x94\xa4" + f"j-{n:02}".encode() + b"\xc4\x01\x07\x01\x00"
            # Several for the same moment, over the end of a page.
            await raw.zadd(queue.delayed_key, {member: delay_ms + n // 10})
            ids.append(f"j-{n:02}")
        else:
            ids.append((await queue.add("n", 7)).id)
    if state in ("active", "failed"):
        await raw.xgroup_create(queue.stream_key, "default", "0")
        [[_, entries]] = await raw.xreadgroup("default", "somebody", {queue.stream_key: ">"})
        for entry_id, fields in entries if state == "failed" else []:
            await raw.xadd(queue.dlq_key, {**fields, b"source_id": entry_id, b"reason": b"x"})
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        jobs, cursor = await queue.get_jobs_page(state, limit=7, cursor=cursor)  # type: ignore[arg-type]
        found += jobs
        pages += 1
    assert [job.id for job in found] == ids
    assert {job.data for job in found} == {7}
    assert [job.id for job in await queue.get_jobs(state, 3, 4)] == ids[3:7]  # type: ignore[arg-type]
    assert await queue.get_jobs(state, limit=0) == []  # type: ignore[arg-type]


async def test_pages_leave_out_what_cannot_be_read(queue: Queue, raw: Redis) -> None:
    await raw.xadd(queue.dlq_key, {"d": b"\xc1", "reason": "decode_failed"})
    await raw.xadd(queue.dlq_key, {"d": b"\x94\xa1j\xc4\x01\x07\x01\x00", "n": "mail", "reason": "x"})
    [job] = await queue.get_jobs("failed")
    assert (job.id, job.name, job.data) == ("j", "mail", 7)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"state": "completed"}, "get_job_result"),
        ({"state": "dead"}, "state"),
        ({"offset": -1}, "offset"),
        ({"limit": -1}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"state": "delayed", "cursor": "1-1"}, "cursor"),
    ],
)
async def test_pages_name_what_is_wrong(queue: Queue, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        await queue.get_jobs(**options)


async def test_counts_of_an_empty_queue_and_of_a_paused_one(queue: Queue) -> None:
    everything = {"waiting": 0, "active": 0, "delayed": 0, "prioritized": 0, "completed": 0, "failed": 0}
    everything["paused"] = 0
    assert await queue.get_job_counts() == everything
    await queue.add("n", 1)
    await queue.pause()
    assert await queue.get_job_counts() == {**everything, "waiting": 1, "paused": 1}
    with pytest.raises(ConfigError, match="state"):
        await queue.get_job_counts("dead")  # type: ignore[arg-type]


async def test_without_events_a_removal_tells_none(redis_url: str, queue_name: str, raw: Redis) -> None:
    config = ProducerConfig(queue_name=queue_name, events_enabled=False)
    async with await Producer.connect(redis_url, config) as producer:
        await producer.add(1)
        await producer.add_in(60, 1)
        assert await producer.drain() == 2
    assert await events_of(raw, queue_name) == []


# --- by entry ---


async def test_waiting_jobs_are_removed_by_their_entries_and_running_ones_stay(
    queue: Queue, raw: Redis, queue_name: str
) -> None:
    added = [await queue.add("welcome", n, job_id=f"own-{n}-{queue_name}") for n in range(4)]
    keys = QueueKeys(queue_name)
    await raw.xgroup_create(keys.stream, "default", "0")
    [[_, [[running, _]]]] = await raw.xreadgroup("default", "worker", {keys.stream: ">"}, count=1)
    waiting = [one.entry_id for one in await queue.list_waiting()]
    assert await queue.remove_waiting([running.decode(), *waiting[:2], "1-1"]) == 2
    assert [one.job_id for one in await queue.list_waiting()] == [added[3].id]
    assert await raw.xlen(keys.stream) == 2
    removed = [event for event in await events_of(raw, queue_name) if event["e"] == "removed"]
    assert [(one["id"], one["prev"]) for one in removed] == [(added[1].id, "waiting"), (added[2].id, "waiting")]
    # Their ids are free again.
    assert (await queue.add("welcome", 1, job_id=added[1].id)).id == added[1].id
    assert len(await queue.list_waiting()) == 2
