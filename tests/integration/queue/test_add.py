"""Adding jobs for now: every door of the producer leads to the stream, all of a call or nothing of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import (
    AddOptions,
    BackoffSpec,
    ConfigError,
    EncodeError,
    JobRetryOverride,
    Producer,
    ProducerConfig,
    ShutdownError,
)
from tests.support.queues import keys_of, waiting_jobs

if TYPE_CHECKING:
    from redis.asyncio import Redis

RETRY = JobRetryOverride(7, BackoffSpec.exponential(10, multiplier=3.0, max_ms=500, jitter_ms=1))


async def test_add(producer: Producer, raw: Redis, queue_name: str) -> None:
    job_id = await producer.add({"to": "a@b"})
    named_id = await producer.add(None, name="mail")
    first, second = await waiting_jobs(raw, queue_name)
    assert (first.id, first.payload, first.name, first.attempt, first.retry) == (job_id, {"to": "a@b"}, "", 0, None)
    assert (second.id, second.payload, second.name) == (named_id, None, "mail")
    assert job_id < named_id
    assert len(job_id) == 26


async def test_add_with_id(producer: Producer, raw: Redis, queue_name: str) -> None:
    assert await producer.add_with_id("order-7", 1, name="order") == "order-7"
    assert await producer.add_with_id("order-7", 2) == "order-7"
    [job] = await waiting_jobs(raw, queue_name)
    assert (job.id, job.payload, job.name) == ("order-7", 1, "order")


async def test_add_with_options(producer: Producer, raw: Redis, queue_name: str) -> None:
    job_id = await producer.add_with_options([1], AddOptions(id="x", retry=RETRY, name="n"))
    [job] = await waiting_jobs(raw, queue_name)
    assert job_id == "x"
    assert (job.id, job.payload, job.name, job.retry) == ("x", [1], "n", RETRY)


async def test_add_bulk_keeps_the_order(producer: Producer, raw: Redis, queue_name: str) -> None:
    ids = await producer.add_bulk(range(2500))
    jobs = await waiting_jobs(raw, queue_name)
    assert [job.payload for job in jobs] == list(range(2500))
    assert [job.id for job in jobs] == ids == sorted(ids)
    assert await producer.add_bulk([]) == []


async def test_add_bulk_of_large_payloads(producer: Producer, raw: Redis, queue_name: str) -> None:
    payloads = [bytes([n]) * 400_000 for n in range(8)]
    ids = await producer.add_bulk(payloads)
    jobs = await waiting_jobs(raw, queue_name)
    assert [(job.id, job.payload) for job in jobs] == list(zip(ids, payloads, strict=True))


async def test_add_bulk_with_options(producer: Producer, raw: Redis, queue_name: str) -> None:
    await producer.add_bulk_with_options([1, 2], AddOptions(retry=RETRY, name="n"))
    await producer.add_bulk_with_options([3], AddOptions(id="only"))
    jobs = await waiting_jobs(raw, queue_name)
    assert [(job.payload, job.name, job.retry) for job in jobs] == [(1, "n", RETRY), (2, "n", RETRY), (3, "", None)]
    assert jobs[2].id == "only"


async def test_an_id_for_several_payloads_is_refused(producer: Producer, raw: Redis, queue_name: str) -> None:
    with pytest.raises(ConfigError, match=r"options\.id"):
        await producer.add_bulk_with_options([1, 2], AddOptions(id="one"))
    assert await keys_of(raw, queue_name) == set()


async def test_add_bulk_named(producer: Producer, raw: Redis, queue_name: str) -> None:
    ids = await producer.add_bulk_named([("a", 1), ("", 2), ("ünï", 3)])
    jobs = await waiting_jobs(raw, queue_name)
    assert [(job.id, job.name, job.payload) for job in jobs] == list(zip(ids, ["a", "", "ünï"], [1, 2, 3], strict=True))
    assert [b"n" in fields for _, fields in await raw.xrange(producer.stream_key)] == [True, False, True]


async def test_keys_and_ids(producer: Producer, queue_name: str, redis_url: str) -> None:
    prefix = f"{{chasqui:{queue_name}}}"
    keys = (producer.stream_key, producer.delayed_key, producer.dlq_key)
    assert keys == (f"{prefix}:stream", f"{prefix}:delayed", f"{prefix}:dlq")
    async with await Producer.connect(redis_url, ProducerConfig(queue_name=queue_name)) as other:
        assert other.producer_id != producer.producer_id


async def test_many_tasks_share_one_connection(producer: Producer, raw: Redis, queue_name: str) -> None:
    ids = await asyncio.gather(*(producer.add(n) for n in range(500)))
    jobs = await waiting_jobs(raw, queue_name)
    assert {job.id: job.payload for job in jobs} == dict(zip(ids, range(500), strict=True))
    mine = [client for client in await raw.client_list() if client["name"].endswith(queue_name)]
    assert len(mine) == 1


NAMED_DOORS: dict[str, Any] = {
    "add": lambda producer, name: producer.add(1, name=name),
    "add_with_id": lambda producer, name: producer.add_with_id("i", 1, name=name),
    "add_bulk_named": lambda producer, name: producer.add_bulk_named([("fine", 1), (name, 2)]),
    "add_with_options": lambda producer, name: producer.add_with_options(1, AddOptions(name=name)),
    "add_in_with_options": lambda producer, name: producer.add_in_with_options(9, 1, AddOptions(name=name)),
}


@pytest.mark.parametrize("door", NAMED_DOORS)
@pytest.mark.parametrize("name", ["x" * 257, "ü" * 129, "\ud800"], ids=["ascii", "two-byte", "no-text"])
async def test_a_name_that_cannot_be_is_refused_before_anything_is_written(
    producer: Producer, raw: Redis, queue_name: str, door: str, name: str
) -> None:
    with pytest.raises(ConfigError, match="name"):
        await NAMED_DOORS[door](producer, name)
    assert await keys_of(raw, queue_name) == set()


@pytest.mark.parametrize("name", ["x" * 256, "ü" * 128], ids=["ascii", "two-byte"])
async def test_a_name_of_256_bytes_is_fine(producer: Producer, raw: Redis, queue_name: str, name: str) -> None:
    await producer.add(1, name=name)
    assert [job.name for job in await waiting_jobs(raw, queue_name)] == [name]


BULKS: dict[str, Any] = {
    "add_bulk": lambda producer, payloads: producer.add_bulk(payloads),
    "add_bulk_named": lambda producer, payloads: producer.add_bulk_named([("n", one) for one in payloads]),
    "add_bulk_with_options": lambda producer, payloads: producer.add_bulk_with_options(payloads, AddOptions(name="n")),
    "add_in_bulk": lambda producer, payloads: producer.add_in_bulk(5, payloads),
    "add_in_bulk_with_ids": lambda producer, payloads: producer.add_in_bulk_with_ids(
        5, [(f"i{n}", one) for n, one in enumerate(payloads)]
    ),
}


@pytest.mark.parametrize("bulk", BULKS)
async def test_a_bulk_with_a_payload_that_cannot_be_encoded_writes_nothing(
    producer: Producer, raw: Redis, queue_name: str, bulk: str
) -> None:
    with pytest.raises(EncodeError, match="job 1501 of 1502"):
        await BULKS[bulk](producer, [*range(1500), object(), 1])
    assert await keys_of(raw, queue_name) == set()
    # What was begun before the error leaves no trace in what comes after it.
    await producer.add({"still": "fine"})
    assert [job.payload for job in await waiting_jobs(raw, queue_name)] == [{"still": "fine"}]


async def test_ids_deduplicate_within_a_bulk_and_across_restarts(redis_url: str, raw: Redis, queue_name: str) -> None:
    config = ProducerConfig(queue_name=queue_name, dedup_ttl_secs=77)
    twice = [("first", AddOptions(id="same")), ("second", AddOptions(id="same")), ("third", AddOptions(id="other"))]
    for _ in range(2):
        async with await Producer.connect(redis_url, config) as producer:
            assert await producer.add_now(twice) == ["same", "same", "other"]
    assert [job.payload for job in await waiting_jobs(raw, queue_name)] == ["first", "third"]
    assert 70 <= await raw.ttl(f"{{chasqui:{queue_name}}}:dlid:same") <= 77


BAD_INPUT: dict[str, tuple[str, Any]] = {
    "an empty id": ("job_id", lambda producer: producer.add_with_id("", 1)),
    "a blank id": ("job_id", lambda producer: producer.add_with_id(" ", 1)),
    "an id that is no text": ("job_id", lambda producer: producer.add_with_id(7, 1)),
    "a long id": ("job_id", lambda producer: producer.add_with_id("x" * 1025, 1)),
    "a name that is no text": ("name", lambda producer: producer.add(1, name=5)),
    "negative attempts": ("max_attempts", lambda producer: producer.add_with_options(1, bad_retry(-1))),
    "attempts that are no number": ("max_attempts", lambda producer: producer.add_with_options(1, bad_retry("x"))),
    "a negative limit to peek": ("limit", lambda producer: producer.peek_dlq(-1)),
    "a limit to replay that is no number": ("limit", lambda producer: producer.replay_dlq("1")),
    "a negative limit to list": ("limit", lambda producer: producer.list_repeatable(-1)),
    "cancelling what is no id": ("job_id", lambda producer: producer.cancel_delayed_bulk(["a", None])),
    "no time to wait": ("timeout", lambda producer: producer.wait_for_result("a", 0)),
    "not a number of seconds to wait": ("timeout", lambda producer: producer.wait_for_result("a", "1")),
}


def bad_retry(max_attempts: Any) -> AddOptions:
    return AddOptions(retry=JobRetryOverride(max_attempts))


@pytest.mark.parametrize("what", BAD_INPUT)
async def test_bad_input_is_named_and_nothing_is_written(
    producer: Producer, raw: Redis, queue_name: str, what: str
) -> None:
    field, call = BAD_INPUT[what]
    with pytest.raises(ConfigError, match=field):
        await call(producer)
    assert await keys_of(raw, queue_name) == set()


async def test_a_closed_producer_says_so(producer: Producer) -> None:
    await producer.close()
    for call in (producer.add(1), producer.add_in(1, 1), producer.cancel_delayed("a"), producer.get_result("a")):
        with pytest.raises(ShutdownError, match="closed"):
            await call
    await producer.close()
