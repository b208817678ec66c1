"""What a queue says about its server and its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_engine._redis.keys import QueueKeys

if TYPE_CHECKING:
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
    assert "no worker has been here yet" in str(health)


async def test_it_counts_the_workers_and_those_who_went_silent_with_jobs(queue: Queue, raw: Redis) -> None:
    stream = QueueKeys(queue.name).stream
    await queue.add("n", 1)
    await raw.xgroup_create(stream, "default", "0")
    await raw.xreadgroup("default", "w-1", {stream: ">"})
    await raw.xgroup_createconsumer(stream, "default", "w-2")
    health = await queue.health()
    assert (health.workers, health.silent) == (2, 0)
    assert str(health).endswith("healthy, 2 workers")
