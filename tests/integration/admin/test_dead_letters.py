"""Dead letters: looking at them, and giving them another life."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import (
    AddOptions,
    BackoffSpec,
    DlqEntry,
    Job,
    JobRetryOverride,
    Producer,
    ProducerConfig,
    Queue,
    UnrecoverableError,
    Worker,
)
from chasqui_engine.admin import dead_letters
from chasqui_engine.codec.envelope import encode_job
from tests.support.queues import keys_of, waiting_jobs, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

RETRY = JobRetryOverride(4, BackoffSpec.fixed(5))


async def bury(raw: Redis, producer: Producer, envelope: bytes, **fields: Any) -> str:
    entry = {"d": envelope, "source_id": "1-1", "reason": "retries_exhausted", **fields}
    return (await raw.xadd(producer.dlq_key, entry)).decode()


def envelope(job_id: str, payload: Any = None, attempt: int = 3) -> bytes:
    packed: bytes = msgpack.packb([job_id, msgpack.packb(payload), 1_700_000_000_000, attempt])
    return packed


async def test_peek_shows_the_oldest_first(producer: Producer, queue: Queue, raw: Redis) -> None:
    first = await bury(raw, producer, envelope("a"), n="mail", detail="ValueError: no")
    second = await bury(raw, producer, b"\xc1 not msgpack")
    entries = await producer.peek_dlq()
    assert entries == [
        DlqEntry(
            dlq_id=first,
            source_id="1-1",
            reason="retries_exhausted",
            detail="ValueError: no",
            payload=envelope("a"),
            name="mail",
        ),
        DlqEntry(
            dlq_id=second,
            source_id="1-1",
            reason="retries_exhausted",
            detail=None,
            payload=b"\xc1 not msgpack",
            name="",
        ),
    ]
    assert await producer.peek_dlq(1) == entries[:1]
    assert await producer.peek_dlq(0) == []
    [as_dict, _] = await queue.peek_dlq()
    assert list(as_dict) == ["dlq_id", "source_id", "reason", "detail", "payload", "name"]
    assert as_dict["name"] == "mail"


async def test_peek_shows_twenty_unless_told_otherwise(producer: Producer, queue: Queue, raw: Redis) -> None:
    for n in range(25):
        await bury(raw, producer, envelope(str(n)))
    assert [len(await producer.peek_dlq()), len(await queue.peek_dlq()), len(await queue.peek_dlq(25))] == [20, 20, 25]


async def test_replay_gives_a_dead_job_a_fresh_start(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    attempts: list[int] = []
    dead_or_alive = "dead"

    async def die(job: Job) -> None:
        attempts.append(job.attempt)
        if dead_or_alive == "dead" and len(attempts) == 2:
            raise UnrecoverableError("no use")
        raise RuntimeError("again")

    options = AddOptions(id="x", name="mail", retry=RETRY)
    await producer.add_with_options({"to": "a"}, options)
    async with working(Worker(queue_name, die, redis_url=redis_url, read_block_ms=50)):
        await until(lambda: raw.xlen(producer.dlq_key))
    assert attempts == [0, 1]
    assert f"{{chasqui:{queue_name}}}:failure:x" in await keys_of(raw, queue_name)
    assert await producer.replay_dlq() == 1
    [job] = await waiting_jobs(raw, queue_name)
    assert (job.id, job.payload, job.name, job.attempt, job.retry) == ("x", {"to": "a"}, "mail", 0, RETRY)
    assert await raw.xlen(producer.dlq_key) == 0
    assert f"{{chasqui:{queue_name}}}:failure:x" not in await keys_of(raw, queue_name)
    dead_or_alive = "alive"
    async with working(Worker(queue_name, die, redis_url=redis_url, read_block_ms=50)):
        await until(lambda: raw.xlen(producer.dlq_key))
    # Its own four attempts, all over again.
    assert attempts == [0, 1, 0, 1, 2, 3]


async def test_replay_changes_nothing_but_the_attempt(producer: Producer, raw: Redis) -> None:
    """A payload that a typed producer wrote inline, and fields of a newer one, stay as they are, byte for byte."""
    fields = ["x", {"inline": [1, 2]}, 1_700_000_000_000, 0, [5, ["later", 1, None, None, None]], "new"]
    before = msgpack.packb([*fields[:3], 300, *fields[4:]])
    await bury(raw, producer, before, n="n")
    assert await producer.replay_dlq() == 1
    [(_, entry)] = await raw.xrange(producer.stream_key)
    assert entry == {b"d": msgpack.packb(fields), b"n": b"n"}


async def test_replay_moves_as_many_as_asked_for_oldest_first(
    producer: Producer, queue: Queue, raw: Redis, queue_name: str
) -> None:
    async with raw.pipeline() as pipe:
        for n in range(1000):
            pipe.xadd(producer.dlq_key, {"d": envelope(str(n)), "source_id": "1-1", "reason": "malformed"})
        await pipe.execute()
    assert await producer.replay_dlq(0) == 0
    assert await producer.replay_dlq(3) == 3
    assert await producer.replay_dlq() == 100
    assert await queue.replay_dlq() == 100
    assert await queue.replay_dlq(limit=600) == 600
    assert await producer.replay_dlq(1000) == 197
    assert [job.id for job in await waiting_jobs(raw, queue_name)] == [str(n) for n in range(1000)]
    assert await producer.replay_dlq() == 0


async def test_two_replays_at_once_never_duplicate(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    async with raw.pipeline() as pipe:
        for n in range(1500):
            pipe.xadd(producer.dlq_key, {"d": envelope(str(n)), "source_id": "1-1", "reason": "malformed"})
        await pipe.execute()
    async with await Producer.connect(redis_url, ProducerConfig(queue_name=queue_name)) as other:
        moved = await asyncio.gather(*(one.replay_dlq(2000) for one in (producer, other, producer, other)))
    assert sum(moved) == 1500
    assert sorted(int(job.id) for job in await waiting_jobs(raw, queue_name)) == list(range(1500))
    assert await raw.xlen(producer.dlq_key) == 0


UNREADABLE = [
    b"",
    b"\xc1",
    b"\x94\xa1x",
    msgpack.packb({"a": 1}),
    msgpack.packb([5, b"", 1, 1]),
    msgpack.packb(["x", 1]),
]


async def test_what_cannot_be_decoded_stays_and_is_counted(
    producer: Producer, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    stay = [await bury(raw, producer, data) for data in UNREADABLE for _ in range(100)]
    await raw.xadd(producer.dlq_key, {"source_id": "1-1", "reason": "malformed"})
    await bury(raw, producer, envelope("fine"))
    # One that can be read lies behind more unreadable ones than a replay is asked for.
    with caplog.at_level(logging.WARNING, logger="chasqui"):
        assert await producer.replay_dlq(2) == 1
    assert [job.id for job in await waiting_jobs(raw, queue_name)] == ["fine"]
    assert f"{len(stay) + 1} dead letters of queue {queue_name} are unreadable" in caplog.text
    assert await raw.xlen(producer.dlq_key) == len(stay) + 1
    assert [entry.dlq_id for entry in await producer.peek_dlq(len(stay))] == stay


async def test_a_replay_ends_though_its_jobs_die_again(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What dies again while the replay goes on is not replayed by it once more."""
    monkeypatch.setattr(dead_letters, "_PAGE", 5)
    runs = 0

    async def die(job: Job) -> None:
        nonlocal runs
        runs += 1
        raise UnrecoverableError(job.id)

    async with raw.pipeline() as pipe:
        for n in range(600):
            pipe.xadd(producer.dlq_key, {"d": envelope(str(n)), "source_id": "1-1", "reason": "unrecoverable"})
        await pipe.execute()
    async with working(Worker(queue_name, die, redis_url=redis_url, read_block_ms=50)):
        assert await producer.replay_dlq(100_000) == 600
        await until(lambda: runs == 600)

        async def all_dead() -> bool:
            return bool(await raw.xlen(producer.dlq_key) == 600)

        await until(all_dead)
    assert runs == 600


async def test_a_dead_letter_is_replayed_with_another_payload(producer: Producer, raw: Redis, queue_name: str) -> None:
    job = Job(id="own", payload={"to": "adda"}, created_at_ms=1_700_000_000_000, attempt=4, retry=RETRY)
    fields: Any = {"d": encode_job(job), "n": "welcome", "source_id": "1-1", "reason": "unrecoverable"}
    await raw.xadd(producer.dlq_key, fields)
    [letter] = await producer.peek_dlq()
    assert await producer.replay_edited(letter, {"to": "ada"})
    [edited] = await waiting_jobs(raw, queue_name)
    assert (edited.id, edited.name, edited.payload, edited.attempt) == ("own", "welcome", {"to": "ada"}, 0)
    assert (edited.created_at_ms, edited.retry) == (job.created_at_ms, RETRY)
    assert await producer.peek_dlq() == []
    assert not await producer.replay_edited(letter, {"to": "ada"})
    assert len(await waiting_jobs(raw, queue_name)) == 1
