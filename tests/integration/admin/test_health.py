"""What a queue says about its server and its workers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin import workers as workers_of_queues

if TYPE_CHECKING:
    import pytest
    from redis.asyncio import Redis

    from chasqui_engine import Queue


async def test_it_names_the_server_before_any_worker_was_there(queue: Queue, server_kind: str) -> None:
    health = await queue.health()
    if server_kind != "given":
        kind, _, version = server_kind.partition("-")
        assert health.server == kind
        assert health.version.startswith(version)
    assert health.workers is None
    assert health.healthy
    assert "no worker has run yet" in str(health)


async def test_it_counts_the_workers_and_those_who_went_silent_with_jobs(queue: Queue, raw: Redis) -> None:
    stream = QueueKeys(queue.name).stream
    await queue.add("n", 1)
    await raw.xgroup_create(stream, "default", "0")
    await raw.xreadgroup("default", "w-1", {stream: ">"})
    await raw.xgroup_createconsumer(stream, "default", "w-2")
    health = await queue.health()
    assert (health.workers, health.silent) == (2, 0)
    assert str(health).endswith("healthy, 2 workers")


async def test_it_counts_the_living_only(queue: Queue, raw: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_of_queues, "SILENT_MS", 200)
    stream = QueueKeys(queue.name).stream
    await queue.add("n", 1)
    await raw.xgroup_create(stream, "default", "0")
    await raw.xgroup_createconsumer(stream, "default", "w-1")
    await raw.xgroup_createconsumer(stream, "default", "w-2")
    await asyncio.sleep(0.4)
    health = await queue.health()
    assert (health.workers, health.silent, health.gone, health.healthy) == (0, 0, 2, False)
    assert str(health).endswith("no worker is running; 2 ended without signing off")

    await queue.pause()
    assert str(await queue.health()).endswith("healthy, 2 workers")
    await queue.resume()
    await raw.xreadgroup("default", "w-3", {stream: ">"})
    health = await queue.health()
    assert (health.workers, health.gone, health.healthy) == (1, 2, True)
    await asyncio.sleep(0.4)
    health = await queue.health()
    assert (health.workers, health.silent, health.healthy) == (0, 1, False)
    assert str(health).endswith("1 of 1 workers have jobs in flight and are silent")


async def test_workers_that_left_in_order_are_not_missed(queue: Queue, raw: Redis) -> None:
    await raw.xgroup_create(QueueKeys(queue.name).stream, "default", "0", mkstream=True)
    health = await queue.health()
    assert (health.workers, health.gone, health.healthy) == (0, 0, True)
    assert str(health).endswith("no worker is running")
