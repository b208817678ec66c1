"""ChasquiMQ's own classes: what is no bytes, an unknown option and a result of another kind are refused by name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Queue
from chasqui_engine.native import Consumer, Producer, Scheduler
from tests.support.queues import dead_letters_of, waiting_jobs
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

NOWHERE = "redis://127.0.0.1:1"
SPEC = {"job_name": "n", "pattern": {"kind": "every", "interval_ms": 10}, "payload": b""}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda producer: producer.add({"to": "ada"}), TypeError, "payload must be bytes, got dict"),
        (lambda producer: producer.add_with_options(b"", {"job_id": "x"}), ConfigError, "unknown field 'job_id'"),
        (lambda producer: producer.add_with_options(b"", {"retry": {"attempts": 1}}), ConfigError, "'attempts'"),
        (lambda producer: producer.add_in(-1, b""), ConfigError, "delay_ms"),
        (lambda producer: producer.add_at("now", b""), ConfigError, "when_ms"),
        (lambda producer: producer.upsert_repeatable({"job_name": "n"}), ConfigError, "spec needs 'pattern'"),
        (lambda producer: producer.upsert_repeatable({**SPEC, "every": 1}), ConfigError, "unknown field 'every'"),
        (lambda producer: producer.upsert_repeatable({**SPEC, "payload": 1}), TypeError, "payload must be bytes"),
    ],
)
async def test_a_bad_argument_is_named_before_anybody_connects(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        await call(Producer(NOWHERE, "q"))


async def test_bytes_are_the_payload_itself_on_every_server(redis_url: str, raw: Redis, queue_name: str) -> None:
    producer = Producer(redis_url, queue_name)
    await producer.add_bulk([b"\x81\xa1k\x01", bytearray(b"\x81\xa1k\x02")])
    await producer.add_bulk_with_options([b"\x81\xa1k\x03"], {"name": "n"})
    await producer.add_at(1, b"\x81\xa1k\x04")
    assert [job.data for job in await waiting_jobs(raw, queue_name)] == [{"k": n} for n in (1, 2, 3, 4)]
    await producer.shutdown()


async def test_a_result_that_is_no_bytes_buries_the_job(redis_url: str, raw: Redis, queue_name: str) -> None:
    producer, consumer = Producer(redis_url, queue_name), Consumer(redis_url, queue_name, read_block_ms=100)
    await producer.add(b"\xc0")

    async def handler(job: Any) -> Any:
        return {"not": "bytes"}

    running = asyncio.create_task(consumer.run(handler))
    [letter] = await until(lambda: dead_letters_of(raw, queue_name))
    assert letter["detail"] == b"EncodeError: [CMQ-002] a handler returns bytes or None, got dict"
    consumer.shutdown()
    await asyncio.wait_for(running, 10)
    await producer.shutdown()


async def test_a_service_that_was_shut_down_before_does_not_run(redis_url: str, queue_name: str) -> None:
    services: list[Any] = [Consumer(redis_url, queue_name), Scheduler(redis_url, queue_name)]
    for service, arguments in zip(services, ([print], []), strict=True):
        service.shutdown()
        await asyncio.wait_for(service.run(*arguments), 10)


async def test_jobs_of_both_kinds_share_a_queue(redis_url: str, queue_name: str) -> None:
    """Bytes that are MessagePack are a value for a worker of values, and the other way round."""
    seen: list[bytes] = []

    async def handler(job: Any) -> bytes:
        seen.append(job.payload)
        return b"\xa2ok"

    consumer = Consumer(redis_url, queue_name, read_block_ms=100, store_results=True)
    running = asyncio.create_task(consumer.run(handler))
    async with Queue(queue_name, redis_url=redis_url) as queue:
        job = await queue.add("n", {"k": 1})
        assert await job.wait_for_result(timeout=10) == "ok"
    assert seen == [b"\x81\xa1k\x01"]
    consumer.shutdown()
    await asyncio.wait_for(running, 10)
