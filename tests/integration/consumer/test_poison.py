"""Entries that should not be there: each is accounted for, and the worker lives on."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec import envelope as codec
from chasqui_engine.consumer import runner
from tests.support.consumers import Recorder, consuming, pending
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


def envelope(job_id: Any = "j", payload: Any = b"\x01", created: Any = 1, attempt: Any = 0, *more: Any) -> bytes:
    """An envelope with anything in it."""
    packed: bytes = msgpack.packb([job_id, payload, created, attempt, *more])
    return packed


GOOD = [
    pytest.param({b"d": envelope(), b"x": b"unknown", b"y": b"\xff"}, id="unknown fields"),
    pytest.param({b"x": b"first", b"d": envelope()}, id="fields in another order"),
    pytest.param({b"d": envelope(), b"n": b""}, id="empty name"),
    pytest.param({b"d": envelope(), b"n": b"\xff\xfe"}, id="name not UTF-8"),
    pytest.param({b"d": envelope(), b"n": b"n" * 256}, id="longest name"),
    pytest.param({b"d": envelope("x" * 1024)}, id="longest id"),
    pytest.param({b"d": envelope("j", {"inline": [1]})}, id="inline payload"),
    pytest.param({b"d": envelope("j", None)}, id="inline nil"),
    pytest.param({b"d": envelope("j", b"\x01", 2**63, 0)}, id="far future"),
    pytest.param({b"d": envelope("j", b"\x01", 1, 0, None)}, id="retry nil"),
    pytest.param({b"d": envelope("j", b"\x01", 1, 0, [2, None], "newer")}, id="a sixth element"),
]


@pytest.mark.parametrize("fields", GOOD)
async def test_odd_but_legal_entries_run(
    redis_url: str, raw: Redis, queue_name: str, fields: dict[bytes, bytes]
) -> None:
    """Run, fail once, and run again: the way through the delayed set has to bear them as well."""
    jobs: list[Job] = []

    async def handler(job: Job) -> None:
        jobs.append(job)
        if len(jobs) == 1:
            raise ValueError("once")

    await raw.xadd(QueueKeys(queue_name).stream, fields)  # type: ignore[arg-type]
    async with consuming(redis_url, queue_name, handler, store_results=True):
        await until(lambda: len(jobs) == 2)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert [job.attempt for job in jobs] == [0, 1]
    assert jobs[0].name == jobs[1].name
    assert await dead_letters_of(raw, queue_name) == []


BAD = [
    pytest.param({b"x": b"y"}, "malformed", id="no d"),
    pytest.param({b"d": b""}, "decode_failed", id="empty d"),
    pytest.param({b"d": b"\xc1"}, "decode_failed", id="never MessagePack"),
    pytest.param({b"d": b"\x94"}, "decode_failed", id="cut short"),
    pytest.param({b"d": envelope() + b"\x00"}, "decode_failed", id="more after the end"),
    pytest.param({b"d": msgpack.packb({"id": "j"})}, "decode_failed", id="a map"),
    pytest.param({b"d": msgpack.packb(["j", b"\x01", 1])}, "decode_failed", id="too few"),
    pytest.param({b"d": envelope(7)}, "decode_failed", id="id a number"),
    pytest.param({b"d": envelope(b"bin")}, "decode_failed", id="id bytes"),
    pytest.param({b"d": b"\x94\xa2\xff\xff\xc4\x01\x01\x01\x00"}, "decode_failed", id="id not UTF-8"),
    pytest.param({b"d": envelope("j", b"\xc1")}, "decode_failed", id="payload never MessagePack"),
    pytest.param({b"d": envelope("j", b"")}, "decode_failed", id="payload empty"),
    pytest.param({b"d": envelope("j", b"\x01\x01")}, "decode_failed", id="payload with more after the end"),
    pytest.param({b"d": envelope("j", b"\x01", "now")}, "decode_failed", id="created_at text"),
    pytest.param({b"d": envelope("j", b"\x01", 1, -1)}, "decode_failed", id="attempt negative"),
    pytest.param({b"d": envelope("j", b"\x01", 1, True)}, "decode_failed", id="attempt a truth"),
    pytest.param({b"d": envelope("j", b"\x01", 1, 2**64 - 1)}, "decode_failed", id="attempt beyond counting"),
    pytest.param({b"d": envelope("j", b"\x01", 1, 0, "retry")}, "decode_failed", id="retry text"),
    pytest.param({b"d": envelope("j", b"\x01", 1, 0, [-1, None])}, "decode_failed", id="retry negative"),
    pytest.param(
        {b"d": envelope("j", b"\x01", 1, 0, [3, ["fixed", None, None, None, None]])}, "decode_failed", id="no delay"
    ),
    pytest.param(
        {b"d": envelope("j", b"\x01", 1, 0, [3, ["fixed", "x", None, None, None]])}, "decode_failed", id="delay text"
    ),
    pytest.param({b"d": envelope("j", b"\x91" * 5000)}, "decode_failed", id="nested without end"),
    pytest.param({b"d": b"\x00" * 2_000_000}, "oversize_payload", id="oversize"),
]


@pytest.mark.parametrize(("fields", "reason"), BAD)
async def test_entries_that_are_no_jobs_are_buried(
    redis_url: str, raw: Redis, queue_name: str, fields: dict[bytes, bytes], reason: str
) -> None:
    """And a handler that fails everything it is given has no say in it."""
    ran: list[Job] = []

    async def handler(job: Job) -> None:
        ran.append(job)
        raise ValueError("no")

    await raw.xadd(QueueKeys(queue_name).stream, fields)  # type: ignore[arg-type]
    async with consuming(redis_url, queue_name, handler, max_attempts=1):
        await until(lambda: stream_is_empty(raw, queue_name))
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter["reason"] == reason.encode()
    assert letter["d"] == fields.get(b"d", b"")
    assert ran == []
    assert [event["attempt"] for event in await events_of(raw, queue_name) if event["e"] == "dlq"] == ["0"]


async def test_a_backoff_that_would_take_for_ever_to_work_out(redis_url: str, raw: Redis, queue_name: str) -> None:
    """A whole number as multiplier, and very many attempts already: a power that no memory holds."""
    poison = envelope("j", b"\x01", 1, 2_000_000_000, [2**31 - 1, ["exponential", 10, 1000, 3, 0]])
    runs: list[Job] = []

    async def handler(job: Job) -> None:
        runs.append(job)
        raise ValueError("no")

    await raw.xadd(QueueKeys(queue_name).stream, {b"d": poison})
    async with consuming(redis_url, queue_name, handler, delayed_enabled=False):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert len(runs) == 1


async def test_an_entry_with_very_many_fields(redis_url: str, raw: Redis, queue_name: str) -> None:
    """More than a script can pass on in one call; when the worker stops while it is buffered, it still goes back."""
    stream = QueueKeys(queue_name).stream
    await raw.xadd(stream, {f"f{n}": "x" for n in range(6000)})
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen) as consumer:
        consumer.shutdown.set()
        await consumer.stop()
    assert await raw.xlen(stream) == 1
    assert await pending(raw, queue_name) == {}
    async with consuming(redis_url, queue_name, seen):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert [letter["reason"] for letter in await dead_letters_of(raw, queue_name)] == [b"malformed"]


def mutations(count: int, seed: int) -> list[dict[bytes, bytes]]:
    """Entries made of good ones by flipping, cutting, doubling and inserting bytes."""
    chance = random.Random(seed)
    seeds = [
        envelope("job-1", msgpack.packb({"k": [1, 2.5, None, "text"]}), 1_700_000_000_000, 0),
        envelope("job-2", {"inline": True}, 1, 2, [5, ["exponential", 1, 2, 1.5, 0]]),
        envelope("job-3", msgpack.packb(b"bytes" * 20), 1, 0, [None, None]),
    ]
    return [_mutated(chance, chance.choice(seeds)) for _ in range(count)]


def _mutated(chance: random.Random, data: bytes) -> dict[bytes, bytes]:
    body = bytearray(data)
    for _ in range(chance.randint(0, 3)):
        at = chance.randrange(len(body)) if body else 0
        how = chance.randrange(4)
        if how == 0 and body:
            body[at] = chance.randrange(256)
        elif how == 1:
            del body[at : at + chance.randint(1, 4)]
        elif how == 2:
            body[at:at] = chance.randbytes(chance.randint(1, 4))
        else:
            body += body[at:]
    fields = {b"d": bytes(body)}
    if chance.random() < 0.3:
        fields[b"n"] = chance.randbytes(chance.randint(0, 8))
    if chance.random() < 0.05:
        del fields[b"d"]
        fields[b"x"] = b"y"
    return fields


async def test_thousands_of_mutated_entries(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Every entry ends in exactly one way; the worker outlives all of them."""
    entries = mutations(3000, seed=1)
    async with raw.pipeline(transaction=False) as pipe:
        for fields in entries:
            pipe.xadd(QueueKeys(queue_name).stream, fields)  # type: ignore[arg-type]
        await pipe.execute()

    async def handler(job: Job) -> Any:
        if job.created_at_ms % 2:
            raise ValueError("every other")
        return job.payload

    settings = {"store_results": True, "max_attempts": 1, "result_ttl_secs": 60, "delayed_enabled": False}
    async with consuming(redis_url, queue_name, handler, **settings):
        await until(lambda: stream_is_empty(raw, queue_name), timeout_s=30)
        assert await pending(raw, queue_name) == {}
    ends = Counter(fields[b"e"] for _, fields in await raw.xrange(QueueKeys(queue_name).events))
    assert ends[b"completed"] + ends[b"dlq"] + ends[b"retry-scheduled"] == len(entries)
    assert min(ends[b"completed"], ends[b"dlq"], ends[b"retry-scheduled"]) > 50
    reasons = Counter(letter["reason"] for letter in await dead_letters_of(raw, queue_name))
    assert reasons.total() == ends[b"dlq"]
    assert reasons.keys() == {b"decode_failed", b"malformed", b"retries_exhausted"}


async def test_a_job_that_memory_is_short_for_is_read_again_and_never_buried(
    redis_url: str, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    jobs: list[Job] = []
    short = [True, True]

    async def handler(job: Job) -> None:
        jobs.append(job)

    def unpack(data: bytes, **options: Any) -> Any:
        if short and data == b"\x2a":
            short.pop()
            raise MemoryError
        return msgpack.unpackb(data, **options)

    monkeypatch.setattr(codec, "msgpack", SimpleNamespace(unpackb=unpack, Unpacker=msgpack.Unpacker))
    monkeypatch.setattr(runner, "_NO_MEMORY_S", 0.01)
    await raw.xadd(QueueKeys(queue_name).stream, {b"d": envelope("j", b"\x2a")})
    async with consuming(redis_url, queue_name, handler):
        await until(lambda: len(jobs) == 1)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert (jobs[0].payload, jobs[0].attempt, jobs[0].deliveries) == (42, 0, 0)
    assert not short
    assert caplog.text.count("cannot be decoded: out of memory") == 2
    assert await dead_letters_of(raw, queue_name) == []
