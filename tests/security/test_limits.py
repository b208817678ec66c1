"""What a hostile producer can make the others write, keep or show has an upper bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import (
    ConfigError,
    JobFailedError,
    Producer,
    ProducerConfig,
    Queue,
    QueueFullError,
    RepeatableSpec,
    RepeatPattern,
)
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.consumer.verdict import MAX_DETAIL_CHARS, MAX_ERROR_CHARS
from chasqui_engine.metrics import PrometheusSink
from tests.support.consumers import consuming
from tests.support.queues import dead_letters_of, events_of, keys_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

KIB = 1024


async def handler(job: Job) -> Any:
    if job.name == "fail":
        raise ValueError("x" * 100_000)
    return b"x" * (job.payload if isinstance(job.payload, int) else 0)


async def bury(url: str, raw: Redis, queue: str, fields: dict[str, bytes], **settings: Any) -> dict[str, bytes]:
    """The one dead letter that an entry becomes."""
    await raw.xadd(QueueKeys(queue).stream, fields)  # type: ignore[arg-type]
    async with consuming(url, queue, handler, max_attempts=1, **settings):
        await until(lambda: stream_is_empty(raw, queue))
    (letter,) = await dead_letters_of(raw, queue)
    return letter


async def test_payload(redis_url: str, raw: Redis, queue_name: str) -> None:
    envelope = msgpack.packb(["j", b"\xc4" + b"x" * 200, 1, 0])
    letter = await bury(redis_url, raw, queue_name, {"d": envelope}, max_payload_bytes=100)
    assert letter["reason"] == b"oversize_payload"


async def test_name(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        with pytest.raises(ConfigError, match="name"):
            await queue.add("n" * 257, 1)
    # Whoever writes to Redis directly can say what they like; none of it is written several times over.
    fields = {"d": msgpack.packb(["j", b"\xc0", 1, 0]), "n": b"n" * 1_100_000}
    letter = await bury(redis_url, raw, queue_name, fields)
    assert letter["reason"] == b"oversize_payload"
    assert len(letter["n"]) == 256
    assert {len(event["n"]) for event in await events_of(raw, queue_name) if "n" in event} == {256}


async def test_detail_and_events(redis_url: str, raw: Redis, queue_name: str) -> None:
    fields = {"d": msgpack.packb(["j", b"\xc0", 1, 0]), "n": b"fail"}
    letter = await bury(redis_url, raw, queue_name, fields)
    assert len(letter["detail"]) == MAX_DETAIL_CHARS
    reasons = [event["reason"] for event in await events_of(raw, queue_name) if event["e"] == "failed"]
    assert [len(reason) for reason in reasons] == [MAX_ERROR_CHARS]


async def test_what_a_burial_quotes(redis_url: str, raw: Redis, queue_name: str) -> None:
    """The entry is at fault, no handler ran, and the complaint shows what it complains about."""
    envelope = msgpack.packb(["j", b"\xc0", 1, 0, [3, ["fixed", "x" * 500_000, None, None, None]]])
    letter = await bury(redis_url, raw, queue_name, {"d": envelope})
    assert len(letter["detail"]) == MAX_DETAIL_CHARS
    failure = await raw.get(QueueKeys(queue_name).failure("j"))
    assert failure is not None
    assert len(failure) < MAX_DETAIL_CHARS + KIB


async def test_result(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with (
        Queue(queue_name, redis_url=redis_url) as queue,
        consuming(redis_url, queue_name, handler, store_results=True, max_result_bytes=1000),
    ):
        small = await queue.add("n", 900)
        assert await small.wait_for_result(timeout=10) == b"x" * 900
        large = await queue.add("n", 2000)
        with pytest.raises(JobFailedError, match="at most 1000 are stored"):
            await large.wait_for_result(timeout=10)
    assert await raw.get(QueueKeys(queue_name).result(large.id)) is None


async def test_keys_of_repeatables(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Given, or made of a pattern that goes on and on."""
    long_pattern = RepeatPattern.cron(",".join(["0"] * 507) + " * * * *")
    async with await Producer.connect(redis_url, ProducerConfig(queue_name=queue_name)) as producer:
        for spec in (
            RepeatableSpec("n", RepeatPattern.every(1000), None, key="k" * 1025),
            RepeatableSpec("n", long_pattern, None),
        ):
            with pytest.raises(ConfigError, match="key must be at most 1024 bytes"):
                await producer.upsert_repeatable(spec)
        longest = RepeatableSpec("n", RepeatPattern.every(60_000), None, key="k" * 1024)
        await producer.upsert_repeatable(longest)
    assert await raw.zcard(QueueKeys(queue_name).repeat) == 1


async def test_ids(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        with pytest.raises(ConfigError, match="job_id must be at most 1024 bytes"):
            await queue.add("n", 1, job_id="i" * 1025)
    fields = {"d": msgpack.packb(["i" * 100_000, b"\xc0", 1, 0]), "n": b"n"}
    letter = await bury(redis_url, raw, queue_name, fields)
    assert letter["reason"] == b"decode_failed"
    assert b"id takes up to 1024" in letter["detail"]
    assert {event["id"] for event in await events_of(raw, queue_name)} == {""}
    assert max(map(len, await keys_of(raw, queue_name))) < 100


async def test_names_within_the_size_of_a_job(redis_url: str, raw: Redis, queue_name: str) -> None:
    fields = {"d": msgpack.packb(["j", b"\xc0", 1, 0]), "n": b"n" * 100_000}
    letter = await bury(redis_url, raw, queue_name, fields)
    assert letter["reason"] == b"decode_failed"
    assert len(letter["n"]) == 256
    assert {len(event["n"]) for event in await events_of(raw, queue_name) if "n" in event} == {256}


async def test_jobs_that_wait(redis_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url, max_stream_len=10) as queue:
        await queue.add_bulk([{"name": "n", "data": n} for n in range(10)])
        with pytest.raises(QueueFullError):
            await queue.add("n", 11)


async def test_delay(redis_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url) as queue:
        with pytest.raises(ConfigError, match="max_delay_secs"):
            await queue.add("n", 1, delay_ms=31 * 24 * 3600 * 1000)


async def test_dead_letters_and_events_are_trimmed(redis_url: str, raw: Redis, queue_name: str) -> None:
    stream, keys = QueueKeys(queue_name).stream, QueueKeys(queue_name)
    async with raw.pipeline(transaction=False) as pipe:
        for _ in range(2000):
            pipe.xadd(stream, {"x": "no job"})
        await pipe.execute()
    async with consuming(redis_url, queue_name, handler, dlq_max_stream_len=200, events_max_stream_len=200):
        await until(lambda: stream_is_empty(raw, queue_name))
    # The server trims in whole nodes, of a hundred entries each.
    assert await raw.xlen(keys.dlq) <= 400
    assert await raw.xlen(keys.events) <= 400


async def test_labels(redis_url: str, queue_name: str) -> None:
    """Each job has a name of its own: the metrics server gets no more series than it can bear."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    sink = PrometheusSink(queue_name, registry=registry, max_names=20)
    async with (
        Queue(queue_name, redis_url=redis_url) as queue,
        consuming(redis_url, queue_name, handler, metrics=sink, store_results=True),
    ):
        jobs = await queue.add_bulk([{"name": f"name-{n}\n\x00{'x' * 200}", "data": 0} for n in range(300)])
        for job in jobs:
            await job.wait_for_result(timeout=10)
    text = generate_latest(registry).decode()
    names = {line.split('name="')[1].split('"')[0] for line in text.splitlines() if 'name="' in line}
    assert 2 <= len(names) <= 22
    assert max(map(len, names)) <= 128
