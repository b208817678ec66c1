"""Taking delayed jobs back: with an id, without one, waiting for a retry; and never together with a promotion."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chasqui_engine import AddOptions, JobState, Producer, Promoter, PromoterConfig, Queue, Worker
from tests.support.queues import delayed_jobs, keys_of, running, waiting_jobs, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


async def test_cancel_frees_the_id(producer: Producer, raw: Redis, queue_name: str) -> None:
    await producer.add_in_with_options(60, 1, AddOptions(id="a", name="n"))
    assert await producer.cancel_delayed("a")
    assert not await producer.cancel_delayed("a")
    assert await keys_of(raw, queue_name) == {f"{{chasqui:{queue_name}}}:events"}
    await producer.add_in_with_id("a", 60, 2)
    assert [job.payload for job, _ in await delayed_jobs(raw, queue_name)] == [2]


async def test_cancel_of_jobs_without_an_id_of_their_own(producer: Producer, raw: Redis, queue_name: str) -> None:
    ids = await producer.add_in_bulk(60, range(2500))
    named = await producer.add_in_with_options(60, "named", AddOptions(name="ünï" * 40))
    assert await producer.cancel_delayed(ids[1234])
    assert not await producer.cancel_delayed(ids[1234])
    assert await producer.cancel_delayed(named)
    left = {job.payload for job, _ in await delayed_jobs(raw, queue_name)}
    assert left == set(range(2500)) - {1234}


async def test_cancel_of_many_answers_in_order(producer: Producer, raw: Redis, queue_name: str) -> None:
    own = await producer.add_in_bulk_with_ids(60, [(f"own-{n}", n) for n in range(700)])
    minted = await producer.add_in_bulk(60, range(700))
    wanted = [id_ for pair in zip(own, minted, strict=True) for id_ in pair]
    assert await producer.cancel_delayed_bulk(["nobody", *wanted, "no one"]) == [False, *[True] * 1400, False]
    assert await delayed_jobs(raw, queue_name) == []
    assert await producer.cancel_delayed_bulk([]) == []


async def test_ids_of_every_length_are_found_without_an_index(producer: Producer, raw: Redis, queue_name: str) -> None:
    ids = ["x" * size for size in (1, 31, 32, 255, 256, 1024)] + ["ü" * 16]
    for job_id in ids:
        await producer.add_in_with_id(job_id, 60, 1)
        await raw.delete(f"{{chasqui:{queue_name}}}:didx:{job_id}")
    await raw.zadd(producer.delayed_key, {b"\x00": 1, b"\xff\xff\xff\xffxx": 1, b"\x00\x00\x00\x00": 1, b"": 1})
    assert await producer.cancel_delayed_bulk(ids) == [True] * len(ids)
    assert await raw.zcard(producer.delayed_key) == 4


async def test_a_cancelled_job_is_not_delayed_any_more(queue: Queue) -> None:
    own = await queue.add("n", 1, delay_ms=60_000, job_id="own")
    minted = await queue.add("n", 2, delay_ms=60_000)
    for job in (own, minted):
        assert (await queue.get_job(job.id)).state is JobState.DELAYED
        assert await queue.cancel_delayed(job.id)
        assert (await queue.get_job(job.id)).state is JobState.UNKNOWN
    await queue.add("n", 3, delay_ms=60_000, job_id="own")
    assert (await queue.get_job("own")).state is JobState.DELAYED


async def test_an_id_that_begins_another_is_not_taken_for_it(producer: Producer, raw: Redis, queue_name: str) -> None:
    await producer.add_in_with_id("job-10", 60, 1)
    assert not await producer.cancel_delayed("job-1")
    assert len(await delayed_jobs(raw, queue_name)) == 1


async def test_cancel_of_a_job_that_waits_for_a_retry(
    queue: Queue, redis_url: str, raw: Redis, queue_name: str
) -> None:
    async def fail(job: Job) -> None:
        raise RuntimeError(job.id)

    async with working(Worker(queue_name, fail, redis_url=redis_url, read_block_ms=50)):
        minted = await queue.add("n", 1, backoff=60_000)
        own = await queue.add("n", 2, backoff=60_000, job_id="own")
        late = await queue.add("n", 3, backoff=60_000, job_id="late", delay_ms=10)

        async def all_failed() -> bool:
            return [job.attempt for job, _ in await delayed_jobs(raw, queue_name)] == [1, 1, 1]

        await until(all_failed)
        for job in (minted, own, late):
            assert (await queue.get_job(job.id)).state is JobState.FAILED
            assert await queue.cancel_delayed(job.id)
            assert (await queue.get_job(job.id)).state is JobState.UNKNOWN
            assert not await queue.cancel_delayed(job.id)
    assert await delayed_jobs(raw, queue_name) == []


async def test_a_job_that_was_promoted_cannot_be_cancelled(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    ids = [await producer.add_in_with_id("own", 0.01, 1), await producer.add_in(0.01, 2)]
    config = PromoterConfig(poll_interval_ms=5)
    async with running(Promoter(redis_url, queue_name, config).run):
        await until(lambda: raw.xlen(producer.stream_key))
        await until(lambda: _promoted(raw, producer, 2))
    assert await producer.cancel_delayed_bulk(ids) == [False, False]
    assert len(await waiting_jobs(raw, queue_name)) == 2


async def _promoted(raw: Redis, producer: Producer, count: int) -> bool:
    return bool(await raw.xlen(producer.stream_key) == count)


async def test_cancel_and_promote_exclude_each_other(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    """Many rounds in which both reach for the same jobs at the same time: each job goes exactly one way."""
    config = PromoterConfig(poll_interval_ms=1, promote_batch=7)
    promoters = [Promoter(redis_url, queue_name, config), Promoter(redis_url, queue_name, config)]
    cancelled: list[str] = []
    added: list[str] = []
    async with running(promoters[0].run), running(promoters[1].run):
        for number in range(30):
            ids = [f"{number}-{n}" for n in range(10)]
            delay_s = 0.002 * (1 + number % 10)  # some are long due when the cancel comes, some are not
            await producer.add_in_bulk_with_ids(delay_s, [(job_id, 1) for job_id in ids])
            ids += await producer.add_in_bulk(delay_s, range(10))
            await asyncio.sleep(0.004)
            answers = await asyncio.gather(*map(producer.cancel_delayed, ids))
            cancelled += [job_id for job_id, answer in zip(ids, answers, strict=True) if answer]
            added += ids

        async def all_gone() -> bool:
            return not await raw.zcard(producer.delayed_key)

        await until(all_gone)
    promoted = [job.id for job in await waiting_jobs(raw, queue_name)]
    assert sorted(promoted + cancelled) == sorted(added)
    assert cancelled
    assert promoted
