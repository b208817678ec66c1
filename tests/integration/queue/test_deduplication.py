"""An id is taken for every process, not only for the one that took it."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest
from redis.exceptions import ResponseError

from chasqui_engine import AddOptions, Producer, Promoter, PromoterConfig, Queue, RedisError, Worker
from chasqui_engine._redis.blocking.write import Fence, Limits, MixedJob, fence_key, mixed_chunk_command
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import encode_delayed, encode_envelope
from tests.support.queues import delayed_jobs, running, waiting_jobs, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

# Waits for a line, so that all processes add at the same moment.
ADDER = """
import asyncio, sys
from chasqui_engine import AddOptions, Producer, ProducerConfig

async def main(url, queue, who):
    async with await Producer.connect(url, ProducerConfig(queue_name=queue)) as producer:
        print("ready", flush=True)
        sys.stdin.readline()
        for n in range(50):
            await producer.add_with_id(f"now-{n}", who)
            await producer.add_in_with_id(f"later-{n}", 600, who)
        await producer.add_now([(who, AddOptions(id=f"bulk-{n}")) for n in range(1500)])

asyncio.run(main(*sys.argv[1:]))
"""


async def start_adder(url: str, queue: str, who: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", ADDER, url, queue, who, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def test_ids_deduplicate_across_processes(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with asyncio.timeout(40):
        adders = await asyncio.gather(*(start_adder(redis_url, queue_name, who) for who in ("one", "two", "three")))
        for adder in adders:
            assert adder.stdout is not None
            assert await adder.stdout.readline() == b"ready\n"
        await asyncio.gather(*(adder.communicate(b"go\n") for adder in adders))
    assert [adder.returncode for adder in adders] == [0, 0, 0]
    now = [job.id for job in await waiting_jobs(raw, queue_name)]
    later = [job.id for job, _ in await delayed_jobs(raw, queue_name)]
    assert sorted(now) == sorted([f"now-{n}" for n in range(50)] + [f"bulk-{n}" for n in range(1500)])
    assert sorted(later) == sorted(f"later-{n}" for n in range(50))


async def test_an_id_is_taken_for_now_and_later_alike(producer: Producer, raw: Redis, queue_name: str) -> None:
    await producer.add_with_id("a", "now")
    await producer.add_in_with_id("a", 60, "later")
    await producer.add_in_with_id("b", 60, "later")
    await producer.add_with_id("b", "now")
    assert [(job.id, job.payload) for job in await waiting_jobs(raw, queue_name)] == [("a", "now")]
    assert [(job.id, job.payload) for job, _ in await delayed_jobs(raw, queue_name)] == [("b", "later")]


async def test_an_id_stays_taken_after_promotion(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    await producer.add_in_with_id("a", 0.01, 1)
    async with running(Promoter(redis_url, queue_name, PromoterConfig(poll_interval_ms=5)).run):
        await until(lambda: raw.xlen(producer.stream_key))
    await producer.add_in_with_id("a", 60, 2)
    await producer.add_with_options(3, AddOptions(id="a"))
    assert [job.payload for job in await waiting_jobs(raw, queue_name)] == [1]
    assert await delayed_jobs(raw, queue_name) == []


async def test_an_id_stays_taken_after_its_job_ran(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    ran: list[str] = []

    async def note(job: Job) -> None:
        ran.append(job.id)

    async with working(Worker(queue_name, note, redis_url=redis_url, read_block_ms=50)):
        await queue.add_unique("n", 1, job_id="once")
        await until(lambda: ran)
        await queue.add_unique("n", 1, job_id="once")
        await queue.add("n", 1, job_id="last")
        await until(lambda: "last" in ran)
    assert ran == ["once", "last"]


async def test_an_add_that_failed_leaves_its_id_free(producer: Producer, raw: Redis, queue_name: str) -> None:
    """Else the add that is tried again would be taken for a second one, and the job be lost."""
    await raw.set(producer.stream_key, "not a stream")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        await producer.add_with_id("now", 1)
    await raw.set(producer.delayed_key, "not a set")
    with pytest.raises(RedisError, match="WRONGTYPE"):
        await producer.add_in_with_id("later", 60, 2)
    await raw.delete(producer.stream_key, producer.delayed_key)
    await producer.add_with_id("now", 1)
    await producer.add_in_with_id("later", 60, 2)
    assert [job.id for job in await waiting_jobs(raw, queue_name)] == ["now"]
    assert [job.id for job, _ in await delayed_jobs(raw, queue_name)] == ["later"]


async def test_a_stream_without_ids_left_takes_no_id_of_a_job(producer: Producer, raw: Redis, queue_name: str) -> None:
    await raw.xadd(producer.stream_key, {"d": "x"}, id="18446744073709551615-18446744073709551615")
    for _ in range(2):
        with pytest.raises(RedisError, match="exhausted"):
            await producer.add_with_id("a", 1)
    assert not await raw.exists(QueueKeys(queue_name).taken("a"))


async def test_a_bulk_write_that_failed_leaves_its_ids_free(raw: Redis, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    fence = Fence(write_id="w", chunk="0-0", digest="d", ttl_s=60, by_id=False)
    limits = Limits(max_stream_len=10, trim=False, taken_ttl_s=60, events_max=100)
    for job_id, broken, delay_ms in (("now", keys.stream, None), ("later", keys.delayed, 60_000)):
        envelope = encode_envelope(job_id, b"\xc0", 1)
        member = encode_delayed("n", envelope) if delay_ms else b""
        job = MixedJob("n", envelope, member, None, delay_ms, job_id, own_id=True)
        script, command = mixed_chunk_command(keys, fence, limits, [job])
        await raw.set(broken, "neither stream nor set")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await raw.eval(script.source(False), *command)  # type: ignore[arg-type]
        await raw.delete(broken)
        assert not await raw.exists(keys.taken(job_id), fence_key(keys, "w"))
        assert await raw.eval(script.source(False), *command) == 1  # type: ignore[arg-type]
        await raw.delete(fence_key(keys, "w"))
    assert [job.id for job in await waiting_jobs(raw, queue_name)] == ["now"]
    assert [job.id for job, _ in await delayed_jobs(raw, queue_name)] == ["later"]
