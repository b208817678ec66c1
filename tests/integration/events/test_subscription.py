"""Following a queue's events: from the oldest, or live; without loss over breaks; until it is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Queue, QueueEvent, QueueEvents, UnrecoverableError, Worker
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


def events_key(queue_name: str) -> str:
    return f"{{chasqui:{queue_name}}}:events"


async def tell(raw: Redis, queue_name: str, numbers: range) -> None:
    async with raw.pipeline() as pipe:
        for n in numbers:
            pipe.xadd(events_key(queue_name), {"e": "waiting", "id": str(n), "ts": n})
        await pipe.execute()


async def collect(events: QueueEvents, seen: list[QueueEvent]) -> None:
    async for event in events:
        seen.append(event)  # noqa: PERF401 - the test looks at what there is while this goes on


async def test_replay_from_the_beginning(queue: Queue, redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        if job.name == "bad":
            raise UnrecoverableError("no use")

    async with working(Worker(queue_name, handler, redis_url=redis_url, read_block_ms=50)):
        good = await queue.add("good", 1, delay_ms=5)
        bad = await queue.add("bad", 1)
        seen: list[QueueEvent] = []
        async with QueueEvents(queue_name, redis_url=redis_url, last_event_id="0", block_ms=100) as events:
            following = asyncio.create_task(collect(events, seen))
            await until(lambda: {event.name for event in seen} >= {"completed", "dlq", "drained"})
        await following
    of_good = [(event.name, event.job_name, event.fields) for event in seen if event.job_id == good.id]
    assert [(name, job_name) for name, job_name, _ in of_good] == [
        (name, "good") for name in ("delayed", "waiting", "active", "completed")
    ]
    assert of_good[0][2]["delay_ms"] == 5
    assert of_good[2][2]["attempt"] == of_good[3][2]["attempt"] == 1
    assert isinstance(of_good[3][2]["duration_us"], int)
    assert all(isinstance(event.fields["ts"], int) for event in seen)
    assert [(event.name, event.fields.get("reason")) for event in seen if event.job_id == bad.id] == [
        ("active", None),
        ("failed", "no use"),
        ("dlq", "unrecoverable"),
    ]
    drained = [event for event in seen if event.name == "drained"]
    assert {(event.job_id, event.job_name) for event in drained} == {(None, "")}


async def test_live_begins_with_what_comes_after(redis_url: str, raw: Redis, queue_name: str) -> None:
    await tell(raw, queue_name, range(5))
    seen: list[QueueEvent] = []
    async with QueueEvents(queue_name, redis_url=redis_url, block_ms=1000) as events:
        assert events.name == queue_name
        following = asyncio.create_task(collect(events, seen))
        await until(lambda: _blocked(raw, queue_name))
        await tell(raw, queue_name, range(5, 8))
        await until(lambda: len(seen) == 3)
    await following
    assert [event.job_id for event in seen] == ["5", "6", "7"]


async def _blocked(raw: Redis, queue_name: str) -> bool:
    return bool(await readers(raw, queue_name, "b"))


async def readers(raw: Redis, queue_name: str, flags: str = "") -> list[dict[str, Any]]:
    clients = await raw.client_list()
    name = f"chasqui-events:{queue_name}"
    return [client for client in clients if client["name"] == name and flags in client["flags"]]


async def test_an_event_says_where_to_go_on_from(redis_url: str, raw: Redis, queue_name: str) -> None:
    await tell(raw, queue_name, range(10))
    first: list[QueueEvent] = []
    async with QueueEvents(queue_name, redis_url=redis_url, last_event_id="0", count=3) as events:
        async for event in events:
            first.append(event)
            if len(first) == 4:
                break
    rest: list[QueueEvent] = []
    async with QueueEvents(queue_name, redis_url=redis_url, last_event_id=first[-1].entry_id) as events:
        following = asyncio.create_task(collect(events, rest))
        await until(lambda: len(rest) == 6)
    await following
    assert [event.job_id for event in first + rest] == [str(n) for n in range(10)]


async def test_iterating_again_goes_on_where_it_was_left(redis_url: str, raw: Redis, queue_name: str) -> None:
    await tell(raw, queue_name, range(6))
    seen: list[str | None] = []
    async with QueueEvents(queue_name, redis_url=redis_url, last_event_id="0", count=1) as events:
        for _ in range(3):
            iteration = aiter(events)
            seen += [(await anext(iteration)).job_id, (await anext(iteration)).job_id]
            await iteration.aclose()  # type: ignore[attr-defined]
        await until(lambda: _nobody(raw, queue_name))
    assert seen == [str(n) for n in range(6)]


async def _nobody(raw: Redis, queue_name: str) -> bool:
    return not await readers(raw, queue_name)


@pytest.mark.parametrize("begin", ["0", "$"])
async def test_breaks_of_the_connection_lose_nothing(redis_url: str, raw: Redis, queue_name: str, begin: str) -> None:
    seen: list[QueueEvent] = []
    async with QueueEvents(queue_name, redis_url=redis_url, last_event_id=begin, block_ms=2000, count=7) as events:
        following = asyncio.create_task(collect(events, seen))
        await until(lambda: _blocked(raw, queue_name))
        for number in range(4):
            for client in await readers(raw, queue_name):
                await raw.client_kill_filter(_id=client["id"])
            # Told while nobody is connected.
            await tell(raw, queue_name, range(number * 25, number * 25 + 25))
            await until(lambda wanted=number * 25 + 25: len(seen) >= wanted)
    await following
    assert [event.job_id for event in seen] == [str(n) for n in range(100)]


async def test_close_ends_the_iteration_at_once(redis_url: str, raw: Redis, queue_name: str) -> None:
    seen: list[QueueEvent] = []
    events = QueueEvents(queue_name, redis_url=redis_url, block_ms=60_000)
    following = asyncio.create_task(collect(events, seen))
    await until(lambda: _blocked(raw, queue_name))
    await events.close()
    async with asyncio.timeout(10):
        await following
    assert seen == []
    await until(lambda: _nobody(raw, queue_name))
    await events.close()
    await collect(events, seen)


async def test_close_from_within_the_iteration(redis_url: str, raw: Redis, queue_name: str) -> None:
    await tell(raw, queue_name, range(5))
    seen = []
    events = QueueEvents(queue_name, redis_url=redis_url, last_event_id="0")
    async for event in events:
        seen.append(event)
        await events.close()
    assert len(seen) == 1


async def test_cancelling_the_reader_cancels_it(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with QueueEvents(queue_name, redis_url=redis_url) as events:
        following = asyncio.create_task(collect(events, []))
        await until(lambda: _blocked(raw, queue_name))
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following


async def test_entries_of_any_shape_are_survived(redis_url: str, raw: Redis, queue_name: str) -> None:
    key = events_key(queue_name)
    await raw.xadd(key, {"e": "odd", "id": "", "attempt": "many", "new": "field"})
    await raw.xadd(key, {b"\xff": b"\xfe"})
    seen: list[QueueEvent] = []
    async with QueueEvents(queue_name, redis_url=redis_url, last_event_id="0") as events:
        following = asyncio.create_task(collect(events, seen))
        await until(lambda: len(seen) == 2)
    await following
    assert (seen[0].name, seen[0].job_id, seen[0].fields) == ("odd", None, {"attempt": "many", "new": "field"})
    assert (seen[1].name, seen[1].job_id) == ("", None)


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 3000, '{"a":' * 700, "9" * 100_000, "[" + "[]," * 50_000 + "1]"])
def test_a_progress_that_nobody_could_have_told_stays_text(text: str) -> None:
    """One that is nested deeper than the parser goes would end every subscriber."""
    event = QueueEvent.of("1-0", {"e": "progress", "id": "j", "progress": text})
    assert event.fields["progress"] == text


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"block_ms": 0}, "block_ms"),
        ({"block_ms": "5"}, "block_ms"),
        ({"count": 0}, "count"),
        ({"count": 1.5}, "count"),
        ({"last_event_id": "yesterday"}, "last_event_id"),
        ({"last_event_id": 0}, "last_event_id"),
    ],
)
def test_what_cannot_be_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        QueueEvents("q", **options)


def test_the_queues_name_is_checked() -> None:
    with pytest.raises(ConfigError, match="queue_name"):
        QueueEvents("{other}")
