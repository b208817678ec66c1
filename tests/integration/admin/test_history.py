"""How jobs ended, by the events that are left."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import JobState, Queue
from chasqui_engine.admin import history


@pytest.fixture
async def queue(redis_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=redis_url) as one:
        yield one


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(redis_url) as one:
        yield one


async def emit(client: Redis, queue_name: str, *events: tuple[str, str], **fields: Any) -> None:
    """Events as (what happened, the job's id)."""
    for event, job_id in events:
        entry = {"e": event, "id": job_id, "ts": "1", "attempt": "2", "reason": f"{event}-reason", **fields}
        await client.xadd(f"{{chasqui:{queue_name}}}:events", entry)


async def test_the_last_event_counts(client: Redis, queue: Queue, queue_name: str) -> None:
    await emit(client, queue_name, ("failed", "a"), ("dlq", "a"), ("waiting", "a"))
    await emit(client, queue_name, ("failed", "b"), ("active", "b"), ("dlq", "b"), ("dlq", "c"))
    await emit(client, queue_name, ("dlq", "d"), attempt="often")
    await emit(client, queue_name, ("completed", "e"), ("new in a later version", "f"))
    outcomes = await queue.find_outcomes(list("abcdefg"))
    assert {job_id: one.state for job_id, one in outcomes.items()} == {
        "a": JobState.WAITING,
        "b": JobState.DEAD,
        "c": JobState.DEAD,
        "d": JobState.DEAD,
        "e": JobState.COMPLETED,
        "f": JobState.UNKNOWN,
    }
    assert [(one.reason, one.error, one.attempt) for one in map(outcomes.__getitem__, "bcd")] == [
        ("dlq-reason", "failed-reason", 2),
        ("dlq-reason", None, 2),
        ("dlq-reason", None, 0),
    ]
    assert outcomes["e"].at_ms == pytest.approx(time.time() * 1000, abs=5_000)


async def test_what_happened_earlier_does_not_count(client: Redis, queue: Queue, queue_name: str) -> None:
    await emit(client, queue_name, ("completed", "a"))
    assert await queue.find_outcomes(["a"], since_ms=int(time.time() * 1000) + 60_000) == {}


async def test_the_search_is_bounded(
    client: Redis, queue: Queue, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_PAGE", 10)
    monkeypatch.setattr(history, "_MOST_PAGES", 3)
    await emit(client, queue_name, ("completed", "far"), ("completed", "near"))
    await emit(client, queue_name, *[("waiting", "other")] * 29)
    assert set(await queue.find_outcomes(["far", "near"])) == {"near"}
