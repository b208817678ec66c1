"""The dead letters: why, what went wrong, once, and word for those who wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import AddOptions, HandlerError, UnrecoverableError
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.consumer.verdict import MAX_DETAIL_CHARS, MAX_ERROR_CHARS
from tests.support.consumers import Recorder, add, consuming, pending, producing
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


class CustomUnrecoverableError(UnrecoverableError):
    """A user's own."""


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot say")


def raiser(error: BaseException) -> Any:
    """A handler that raises it."""

    async def handler(job: Job) -> None:
        raise error

    return handler


async def _bury(url: str, raw: Redis, queue: str, error: BaseException, **settings: Any) -> dict[str, bytes]:
    """The dead letter of a job that failed so."""
    async with consuming(url, queue, raiser(error), **settings):
        await add(url, queue, "x")
        await until(lambda: dead_letters_of(raw, queue))
    (letter,) = await dead_letters_of(raw, queue)
    assert await stream_is_empty(raw, queue)
    return letter


ERRORS = [
    (ValueError("boom"), b"retries_exhausted", b"ValueError: boom"),
    (UnrecoverableError("never"), b"unrecoverable", b"UnrecoverableError: never"),
    (CustomUnrecoverableError("mine"), b"unrecoverable", b"CustomUnrecoverableError: mine"),
    (HandlerError.unrecoverable(KeyError("k")), b"unrecoverable", b"UnrecoverableError: 'k'"),
    (HandlerError(OSError("disk")), b"retries_exhausted", b"HandlerError: disk"),
    (ValueError(), b"retries_exhausted", b"ValueError: "),
    (ValueError("half a pair: \ud800"), b"retries_exhausted", b"ValueError: half a pair: ?"),
    (SpeechlessError(), b"retries_exhausted", b"SpeechlessError: (its __str__ raised RuntimeError)"),
    (SystemExit(3), b"retries_exhausted", b"SystemExit: 3"),
    (KeyboardInterrupt(), b"retries_exhausted", b"KeyboardInterrupt: "),
    (asyncio.CancelledError("by itself"), b"retries_exhausted", b"CancelledError: by itself"),
]


@pytest.mark.parametrize(("error", "reason", "detail"), ERRORS, ids=[type(error).__name__ for error, _, _ in ERRORS])
async def test_reason_and_detail(
    redis_url: str, raw: Redis, queue_name: str, error: BaseException, reason: bytes, detail: bytes
) -> None:
    letter = await _bury(redis_url, raw, queue_name, error, max_attempts=1)
    assert (letter["reason"], letter["detail"]) == (reason, detail)
    assert "n" not in letter
    assert list(letter) == ["d", "source_id", "reason", "detail"]


@pytest.mark.parametrize("error", [UnrecoverableError("no"), CustomUnrecoverableError("no")])
async def test_unrecoverable_is_buried_whatever_attempts_are_left(
    redis_url: str, raw: Redis, queue_name: str, error: Exception
) -> None:
    await _bury(redis_url, raw, queue_name, error, max_attempts=25)
    kinds = [event["e"] for event in await events_of(raw, queue_name)]
    assert kinds == ["active", "failed", "dlq", "drained"]


async def test_a_very_long_text_is_cut(redis_url: str, raw: Redis, queue_name: str) -> None:
    letter = await _bury(redis_url, raw, queue_name, ValueError("ä" * 1_000_000), max_attempts=1)
    assert len(letter["detail"].decode()) == MAX_DETAIL_CHARS
    (failed,) = [event for event in await events_of(raw, queue_name) if event["e"] == "failed"]
    assert failed["reason"] == "ä" * MAX_ERROR_CHARS


async def test_the_letter_is_the_entry_as_it_was(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with producing(redis_url, queue_name) as producer:
        await producer.add_with_options({"k": [1]}, AddOptions(name="näme"))
    ((entry_id, fields),) = await raw.xrange(QueueKeys(queue_name).stream)
    async with consuming(redis_url, queue_name, raiser(UnrecoverableError("no"))):
        await until(lambda: dead_letters_of(raw, queue_name))
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter == {
        "d": fields[b"d"],
        "n": "näme".encode(),
        "source_id": entry_id,
        "reason": b"unrecoverable",
        "detail": b"UnrecoverableError: no",
    }


async def test_entries_that_no_handler_can_be_given(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Malformed, undecodable and too large: buried with their names, and with attempt 0."""
    stream = QueueKeys(queue_name).stream
    large = msgpack.packb(["big", msgpack.packb("x" * 2000), 1, 0])
    entries: list[dict[bytes, bytes]] = [
        {b"n": b"no d"},
        {b"d": b"\xc1garbage", b"n": b"garbage"},
        {b"d": large, b"n": b"large"},
        {b"d": msgpack.packb([1, 2])},
    ]
    for fields in entries:
        await raw.xadd(stream, fields)  # type: ignore[arg-type]
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, max_payload_bytes=1000):
        await until(lambda: stream_is_empty(raw, queue_name))
    assert seen.jobs == []
    letters = await dead_letters_of(raw, queue_name)
    assert [(letter["reason"], letter.get("n")) for letter in letters] == [
        (b"malformed", b"no d"),
        (b"decode_failed", b"garbage"),
        (b"oversize_payload", b"large"),
        (b"decode_failed", None),
    ]
    assert [letter["d"] for letter in letters] == [b"", b"\xc1garbage", large, msgpack.packb([1, 2])]
    assert letters[0]["detail"] == b"the entry has no field 'd'"
    assert letters[2]["detail"] == f"{len(large) + len('large')} bytes, at most 1000 are accepted".encode()
    told = [event for event in await events_of(raw, queue_name) if event["e"] != "drained"]
    assert [(event["e"], event["attempt"]) for event in told] == [("failed", "0"), ("dlq", "0")] * 4
    assert not any("duration_us" in event for event in told)


async def test_nobody_is_buried_twice(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Two workers, all jobs dying, claims all the time."""
    handler = raiser(ValueError("no"))
    settings = {"claim_min_idle_ms": 50, "max_attempts": 2, "concurrency": 5}
    async with (
        consuming(redis_url, queue_name, handler, **settings),
        consuming(redis_url, queue_name, handler, **settings),
    ):
        ids = await add(redis_url, queue_name, *range(200))
        await until(lambda: _are_dead(raw, queue_name, 200))
        await until(lambda: stream_is_empty(raw, queue_name))
    letters = await dead_letters_of(raw, queue_name)
    assert sorted(msgpack.unpackb(letter["d"])[0] for letter in letters) == sorted(ids)
    assert await pending(raw, queue_name) == {}


async def _are_dead(raw: Redis, queue: str, count: int) -> bool:
    return len(await dead_letters_of(raw, queue)) >= count


async def test_word_is_left_for_those_who_wait(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with consuming(redis_url, queue_name, raiser(ValueError("boom")), max_attempts=2, result_ttl_secs=99):
        (job_id,) = await add(redis_url, queue_name, "x")
        await until(lambda: dead_letters_of(raw, queue_name))
    key = QueueKeys(queue_name).failure(job_id)
    *record, trace = msgpack.unpackb(await raw.get(key))
    assert record == ["retries_exhausted", "ValueError: boom", 2]
    assert trace.endswith("ValueError: boom")
    assert 90 <= await raw.ttl(key) <= 99


async def test_the_dead_letters_have_a_limit(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Kept to about `dlq_max_stream_len`: the server trims by whole nodes of a hundred."""
    async with consuming(
        redis_url, queue_name, raiser(UnrecoverableError("no")), dlq_max_stream_len=100, events_enabled=False
    ):
        await add(redis_url, queue_name, *range(1000))
        await until(lambda: stream_is_empty(raw, queue_name))
    assert 100 <= await raw.xlen(QueueKeys(queue_name).dlq) < 400


async def test_a_result_that_cannot_be_stored_buries_with_its_reason(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    async def handler(job: Job) -> object:
        return object()

    async with consuming(redis_url, queue_name, handler, store_results=True, max_attempts=5):
        await add(redis_url, queue_name, 1)
        await until(lambda: dead_letters_of(raw, queue_name))
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter["reason"] == b"unrecoverable"
    assert b"cannot be written as MessagePack" in letter["detail"]


async def test_a_result_that_nobody_wants_may_be_anything(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> object:
        return object()

    async with consuming(redis_url, queue_name, handler):
        await add(redis_url, queue_name, 1)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert await dead_letters_of(raw, queue_name) == []


async def test_a_result_that_is_too_large_buries_with_its_size(redis_url: str, raw: Redis, queue_name: str) -> None:
    """At the limit it is stored, a byte above it is not, and running again would not help."""

    async def handler(job: Job) -> bytes:
        return bytes(job.payload)

    async with consuming(redis_url, queue_name, handler, store_results=True, max_result_bytes=202):
        (fits, _) = await add(redis_url, queue_name, 200, 201)
        await until(lambda: dead_letters_of(raw, queue_name))
        await until(lambda: stream_is_empty(raw, queue_name))
    assert await raw.strlen(QueueKeys(queue_name).result(fits)) == 202
    (letter,) = await dead_letters_of(raw, queue_name)
    assert letter["reason"] == b"unrecoverable"
    assert b"the result takes 203 bytes, at most 202 are stored" in letter["detail"]
