"""Jobs that ended before anybody waited for them, and of which little is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import JobFailedError, Queue
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.triggers.chasqui import ChasquiJobResultTrigger
from chasqui_provider.waiting import shared_waits
from chasqui_provider.waiting.results import JobDeadError, ResultExpiredError
from tests.provider.helpers import worker

LONG = 40_000


@pytest.fixture
async def client(valkey_queue_url: str) -> AsyncIterator[Redis]:
    async with Redis.from_url(valkey_queue_url) as one:
        yield one


async def tell(client: Redis, queue_name: str, *events: tuple[str, str], **fields: Any) -> None:
    """Events as (what happened, the job's id), long settled."""
    async with client.pipeline(transaction=False) as pipeline:
        for event, job_id in events:
            entry = {"e": event, "id": job_id, "ts": "1", "attempt": "2", "reason": f"{event}-reason", **fields}
            pipeline.xadd(f"{{chasqui:{queue_name}}}:events", entry)
        await pipeline.execute()


async def die_and_be_forgotten(url: str, client: Redis, queue_name: str, job_id: str) -> None:
    """A death of which nothing is left but the dead letter."""
    async with Queue(queue_name, redis_url=url) as queue, worker(url, queue_name):
        with pytest.raises(JobFailedError):
            await (await queue.add("die", None, job_id=job_id)).wait_for_result()
    assert await client.xlen(f"{{chasqui:{queue_name}}}:dlq")
    async for key in client.scan_iter(f"{{chasqui:{queue_name}}}:*{job_id}"):
        await client.delete(key)
    await client.xtrim(f"{{chasqui:{queue_name}}}:events", maxlen=0, approximate=False)


async def poke(queue_name: str, job_ids: Any) -> bool:
    sensor = ChasquiJobResultSensor(task_id="s", queue_name=queue_name, job_ids=job_ids)
    return (await asyncio.to_thread(sensor.poke, {})).is_done


async def poke_again(queue_name: str, job_ids: Any) -> None:
    """As Airflow does while nothing is found: one look has an end, and a busy machine may need a second one."""
    for _ in range(3):
        assert not await poke(queue_name, job_ids)


async def fire(trigger: ChasquiJobResultTrigger) -> Any:
    async for event in trigger.run():
        return event.payload["outcomes"]
    raise AssertionError("the trigger ended without an event")


async def test_a_poke_finds_ends_behind_many_events(client: Redis, queue_name: str) -> None:
    await tell(client, queue_name, ("failed", "died"), ("dlq", "died"), ("completed", "gone"), ("active", "runs"))
    for _ in range(LONG // 5000):
        await tell(client, queue_name, *[("waiting", f"other-{n}") for n in range(5000)])
    await asyncio.sleep(shared_waits._SETTLED_MS / 1000)
    with pytest.raises(JobDeadError, match=r"died is dead after 2 run.*dlq-reason.*failed-reason"):
        await poke_again(queue_name, ["runs", "died"])
    with pytest.raises(ResultExpiredError, match="gone"):
        await poke_again(queue_name, "gone")
    assert not await poke(queue_name, ["runs", "unknown"])


async def test_a_dead_letter_outlives_the_events(valkey_queue_url: str, client: Redis, queue_name: str) -> None:
    await die_and_be_forgotten(valkey_queue_url, client, queue_name, "forgotten")
    with pytest.raises(JobDeadError, match=r"forgotten is dead \(unrecoverable\).*no such luck"):
        await poke(queue_name, "forgotten")
    (outcome,) = await asyncio.wait_for(fire(ChasquiJobResultTrigger(["forgotten"], queue_name)), 20)
    assert (outcome["status"], outcome["reason"]) == ("dead", "unrecoverable")


async def test_a_dead_letter_of_an_earlier_run_is_not_taken(
    valkey_queue_url: str, client: Redis, queue_name: str
) -> None:
    await die_and_be_forgotten(valkey_queue_url, client, queue_name, "again")
    later_ms = int(time.time() * 1000) + 1
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(fire(ChasquiJobResultTrigger(["again"], queue_name, since_ms=later_ms)), 4)


async def test_few_at_a_time_are_looked_for_among_the_dead(
    valkey_queue_url: str, client: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_waits, "_LOOKUPS", 2)
    await die_and_be_forgotten(valkey_queue_url, client, queue_name, "forgotten")
    trigger = ChasquiJobResultTrigger([*(f"unknown-{n}" for n in range(9)), "forgotten"], queue_name)
    (outcome,) = await asyncio.wait_for(fire(trigger), 40)
    assert outcome["job_id"] == "forgotten"
