"""A full queue loses nothing: adds are refused whole, and what is on its way already is never dropped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import (
    AddOptions,
    Producer,
    ProducerConfig,
    Promoter,
    PromoterConfig,
    Queue,
    QueueFullError,
    RepeatPattern,
    Scheduler,
    SchedulerConfig,
    Worker,
)
from chasqui_engine.values.job import Moment
from tests.servers import ServerProcess
from tests.support.queues import delayed_jobs, keys_of, running, server_ms, waiting_jobs, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from chasqui_engine import Job


async def full_at(redis_url: str, queue_name: str, max_stream_len: int, **options: Any) -> Producer:
    config = ProducerConfig(queue_name=queue_name, max_stream_len=max_stream_len, **options)
    return await Producer.connect(redis_url, config)


async def test_a_full_queue_refuses_with_nothing_written(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with await full_at(redis_url, queue_name, 3) as producer:
        await producer.add_bulk([1, 2, 3])
        before = await keys_of(raw, queue_name)
        with pytest.raises(QueueFullError, match=r"no room for 1 .* max_stream_len=3") as refusal:
            await producer.add(4)
        assert refusal.value.code == "CMQ-310"
        with pytest.raises(QueueFullError):
            await producer.add_with_id("mine", 4)
        with pytest.raises(QueueFullError):
            await producer.add_at(0, 4)
    assert [job.payload for job in await waiting_jobs(raw, queue_name)] == [1, 2, 3]
    assert await keys_of(raw, queue_name) == before


@pytest.mark.parametrize("jobs", [6, 1006, 3500])
async def test_a_bulk_that_does_not_fit_writes_nothing(redis_url: str, raw: Redis, queue_name: str, jobs: int) -> None:
    async with await full_at(redis_url, queue_name, jobs + 4) as producer:
        await producer.add_bulk(range(5))
        with pytest.raises(QueueFullError, match=f"no room for {jobs} more"):
            await producer.add_bulk(range(jobs))
        with pytest.raises(QueueFullError):
            await producer.add_now([(n, AddOptions(id=str(n))) for n in range(jobs)])
        assert await raw.xlen(producer.stream_key) == 5
        assert await keys_of(raw, queue_name) == {producer.stream_key}
        await producer.add_bulk(range(jobs - 1))
        assert await raw.xlen(producer.stream_key) == jobs + 4


async def test_a_mixed_bulk_that_does_not_fit_delays_nothing_either(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    async with await full_at(redis_url, queue_name, 1) as producer:
        additions = [(n, AddOptions(id=str(n))) for n in range(3)]
        with pytest.raises(QueueFullError):
            await producer.add_later(additions, [None, Moment(True, 60_000), None])
    assert await keys_of(raw, queue_name) == set()


async def test_a_large_bulk_that_has_begun_is_not_refused_in_the_middle(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    """Two large bulks at once, with room for one: each is in whole, or not at all."""
    async with (
        await full_at(redis_url, queue_name, 6000) as one,
        await full_at(redis_url, queue_name, 6000) as other,
    ):
        outcomes = await asyncio.gather(
            one.add_bulk(["one"] * 5000), other.add_bulk(["other"] * 5000), return_exceptions=True
        )
    written = [job.payload for job in await waiting_jobs(raw, queue_name)]
    for name, outcome in zip(("one", "other"), outcomes, strict=True):
        assert written.count(name) == (0 if isinstance(outcome, QueueFullError) else 5000)
    assert written


async def test_adding_again_what_is_there_needs_no_room(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with await full_at(redis_url, queue_name, 1500) as producer:
        additions = [(n, AddOptions(id=str(n))) for n in range(1500)]
        assert await producer.add_now(additions) == await producer.add_now(additions)
        assert await producer.add_with_id("7", "again") == "7"
        with pytest.raises(QueueFullError):
            await producer.add_now([*additions[:10], ("new", AddOptions(id="new"))])
        await raw.xtrim(producer.stream_key, maxlen=1499, approximate=False)
        await producer.add_now([*additions[:10], ("new", AddOptions(id="new")), ("same", AddOptions(id="new"))])
    assert (await waiting_jobs(raw, queue_name))[-1].payload == "new"


async def test_trimming_has_to_be_asked_for(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with await full_at(redis_url, queue_name, 500, when_full="trim") as producer:
        await producer.add_bulk(range(2000))
        await producer.add("last")
    payloads = [job.payload for job in await waiting_jobs(raw, queue_name)]
    # The server trims whole nodes of its stream, of a hundred entries each.
    assert 500 <= len(payloads) <= 700
    assert payloads == [*range(2000), "last"][-len(payloads) :]


async def test_the_queue_takes_the_same_settings(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url, max_stream_len=2) as queue:
        await queue.add_bulk([{"name": "a", "data": 1}, {"name": "b", "data": 2}])
        with pytest.raises(QueueFullError):
            await queue.add("c", 3)
    async with Queue(queue_name, redis_url=redis_url, max_stream_len=2, when_full="trim") as queue:
        await queue.add("c", 3)
    assert (await waiting_jobs(raw, queue_name))[-1].name == "c"


async def test_promotion_never_drops_because_of_a_cap(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with await full_at(redis_url, queue_name, 300) as producer:
        await producer.add_bulk(range(300))
        await producer.add_in_bulk(0.001, range(300, 900))
        with pytest.warns(UserWarning, match="no effect"):
            config = PromoterConfig(poll_interval_ms=5, max_stream_len=1)
        async with running(Promoter(redis_url, queue_name, config).run):
            await until(lambda: _length(raw, producer.stream_key, 900))
    assert {job.payload for job in await waiting_jobs(raw, queue_name)} == set(range(900))


async def _length(raw: Redis, stream: str, wanted: int) -> bool:
    return bool(await raw.xlen(stream) == wanted)


async def test_fires_never_drop_because_of_a_cap(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with await full_at(redis_url, queue_name, 300) as producer, Queue(queue_name, redis_url=redis_url) as queue:
        await producer.add_bulk(range(300))
        for n in range(50):
            await queue.upsert_repeatable_job(f"r{n}", "fire", repeat=RepeatPattern.every(3_600_000))
        overdue_ms = await server_ms(raw) - 5
        repeat = f"{{chasqui:{queue_name}}}:repeat"
        await raw.zadd(repeat, {f"r{n}::every:3600000": overdue_ms for n in range(50)})
        with pytest.warns(UserWarning, match="no effect"):
            config = SchedulerConfig(tick_interval_ms=20, max_stream_len=1)
        async with running(Scheduler(redis_url, queue_name, config).run):
            await until(lambda: _length(raw, producer.stream_key, 350))


async def test_retries_never_drop_because_of_a_cap(redis_url: str, raw: Redis, queue_name: str) -> None:
    runs: list[tuple[int, int]] = []

    async def fail_once(job: Job) -> None:
        runs.append((job.payload, job.attempt))
        if job.attempt == 0:
            raise RuntimeError("once")

    async with Queue(queue_name, redis_url=redis_url, max_stream_len=200) as queue:
        await queue.add_bulk([{"name": "n", "data": n, "backoff": 20} for n in range(200)])
        async with working(Worker(queue_name, fail_once, redis_url=redis_url, read_block_ms=50)):
            await until(lambda: len(runs) >= 100)
            # As many new ones as fit come between the first run and the second.
            added = 0
            while added < 100:
                try:
                    await queue.add("n", 1000 + added)
                except QueueFullError:
                    await asyncio.sleep(0.005)
                else:
                    added += 1
            await until(lambda: len(runs) == 600)
    assert sorted(runs) == sorted((n, attempt) for n in [*range(200), *range(1000, 1100)] for attempt in (0, 1))
    assert await delayed_jobs(raw, queue_name) == []


async def test_far_from_full_a_job_goes_without_asking_and_looks_the_same(queue_name: str) -> None:
    with ServerProcess() as server:
        async with (
            Redis.from_url(server.url) as raw,
            await full_at(server.url, queue_name, 1_000_000) as producer,
        ):
            await producer.add(1, name="n")
            scripts = await _script_calls(raw)
            await producer.add(2, name="n")
            await producer.add(3)
            assert await _script_calls(raw) == scripts
            entries = await raw.xrange(producer.stream_key)
            assert [list(fields) for _, fields in entries] == [[b"d", b"n"], [b"d", b"n"], [b"d"]]
            assert [(job.payload, job.name) for job in await waiting_jobs(raw, queue_name)] == [
                (1, "n"),
                (2, "n"),
                (3, ""),
            ]
            assert producer.added == 3
            await producer.add_with_id("mine", 4)
            assert await _script_calls(raw) == scripts + 1


async def test_room_is_asked_for_again_after_a_while(
    redis_url: str, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chasqui_engine.queue.enqueue._AMPLE_ROOM", 2)
    monkeypatch.setattr("chasqui_engine.queue.enqueue._AMPLE_FOR_S", 0.05)
    async with await full_at(redis_url, queue_name, 5) as producer, await full_at(redis_url, queue_name, 5) as other:
        await producer.add(0)
        await other.add_bulk([1, 2, 3, 4])
        await asyncio.sleep(0.1)
        with pytest.raises(QueueFullError):
            await producer.add(5)
    assert await raw.xlen(producer.stream_key) == 5


async def _script_calls(raw: Redis) -> int:
    stats = await raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))
