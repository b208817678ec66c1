"""Hostile data by a seed, on its way to Airflow. The other readers: `tests/security/fuzz`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis

from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.triggers import message
from chasqui_provider.triggers.chasqui import ChasquiEventTrigger, ChasquiJobResultTrigger, ChasquiMessageTrigger
from chasqui_provider.waiting.results import ChasquiUnavailableError, ResultUnfitError, values_of
from tests.support.hostile.checks import check_json
from tests.support.hostile.filling import clear, fill
from tests.support.hostile.seeds import COUNT, SEED

PATIENCE_S = 30.0
_AROUND = 3
"""An event has a list of jobs, each of which has a payload."""
MOST_CHARS = 20_000
"""Of an event of a wait: an error's text, and results as far as they are small."""


@pytest.fixture
def client(valkey_queue_url: str, queue_name: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_queue_url) as one:
        yield one
        clear(one, queue_name)


async def told(events: AsyncIterator[Any], key: str, done: Any) -> list[dict[str, Any]]:
    """What a trigger's events tell until that is all; each is JSON that Airflow can hold."""
    found: list[dict[str, Any]] = []

    async def read() -> None:
        async for event in events:
            check_json(event.payload, around=_AROUND)
            found.extend(event.payload[key])

    reading = asyncio.create_task(read())
    async with asyncio.timeout(PATIENCE_S):
        # What comes last may be buried, of which no event tells.
        while not reading.done() and not done(found):
            await asyncio.wait([reading], timeout=0.05)
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    await events.aclose()  # type: ignore[attr-defined]
    return found


async def test_jobs_are_told_or_buried_and_the_good_are_told(
    client: redis.Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message, "_STORED_AFTER_S", 0.1)
    filled = fill(client, queue_name, SEED, COUNT, ("stream",))
    dlq = f"{{chasqui:{queue_name}}}:dlq"
    # The last is a good one, behind everything else.
    trigger = ChasquiMessageTrigger(queue_name, batch_size=20, linger=0.1, max_in_flight=5 * COUNT)
    jobs = await told(trigger.run(), "jobs", lambda found: len(found) + client.xlen(dlq) >= filled.counts["stream"])
    assert len(jobs) + client.xlen(dlq) == filled.counts["stream"]
    assert set(filled.good["stream"]) <= {job["id"] for job in jobs}
    assert {job["payload"]["good"] for job in jobs if job["name"] == "good-name"} == set(filled.good["stream"])


async def test_events_are_all_told(client: redis.Redis, queue_name: str) -> None:
    filled = fill(client, queue_name, SEED, COUNT, ("events",))
    trigger = ChasquiEventTrigger(queue_name, from_start=True, batch_size=50)
    events = await told(trigger.run(), "events", lambda found: len(found) >= filled.counts["events"])
    entries: Any = client.xrange(f"{{chasqui:{queue_name}}}:events")
    assert [event["entry_id"] for event in events] == [entry_id.decode() for entry_id, _ in entries]
    assert set(filled.good["events"]) <= {event["job_id"] for event in events}


@pytest.mark.parametrize("kind", ["result", "failure"])
async def test_every_wait_ends_in_what_airflow_can_hold(client: redis.Redis, queue_name: str, kind: str) -> None:
    filled = fill(client, queue_name, SEED, COUNT, (kind,))
    prefix = f"{{chasqui:{queue_name}}}:{kind}:".encode()
    ids = sorted(key.removeprefix(prefix) for key in client.scan_iter(prefix + b"*", _type="string"))
    texts = [name.decode() for name in ids if 0 < len(name) <= 1024 and can_be_asked_for(name)]
    async with asyncio.timeout(PATIENCE_S):
        events = await asyncio.gather(*(waited(queue_name, job_id) for job_id in texts))
    hook, values = ChasquiHook(), {}
    for job_id, event in zip(texts, events, strict=True):
        check_json(event)
        assert len(str(event)) < MOST_CHARS
        values[job_id] = await asyncio.to_thread(value, event, hook, queue_name)
        check_json(values[job_id])
    for name in filled.good[kind]:
        good = values[name]
        assert good == {"good": name} if kind == "result" else good["detail"] == f"died: {name}"


def can_be_asked_for(name: bytes) -> bool:
    """Whether a DAG can name it, as text."""
    return name.decode(errors="ignore").encode() == name


async def waited(queue_name: str, job_id: str) -> Any:
    trigger = ChasquiJobResultTrigger([job_id], queue_name, on_dead="return")
    (event,) = [event.payload async for event in trigger.run()]
    return event


def value(event: Any, hook: ChasquiHook, queue_name: str) -> Any:
    """What a task returns, or says that it fails of."""
    try:
        return values_of(event, "return", hook, queue_name)[0]
    except (ChasquiUnavailableError, ResultUnfitError) as err:
        return str(err)
