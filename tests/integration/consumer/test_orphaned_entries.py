"""A consumer that somebody deletes by hand: the jobs in its name are on the stream, nobody's, and given out no more."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine._redis.client.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.consumers import Gate, Recorder, add, consuming, pending
from tests.support.queues import dead_letters_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

CLAIM_MS = 400


async def _delete_consumer(raw: Redis, queue: str) -> None:
    stream = QueueKeys(queue).stream
    (consumer,) = await raw.xinfo_consumers(stream, "default")
    # A living worker makes them its own again with its next heartbeat, so they are not looked for afterwards.
    assert await raw.xgroup_delconsumer(stream, "default", consumer["name"]) == consumer["pending"] > 0


async def _holds(raw: Redis, queue: str, count: int) -> bool:
    return len(await pending(raw, queue)) == count


@pytest.mark.parametrize("fails", [False, True], ids=["ends well", "fails once"])
async def test_a_living_worker_ends_what_it_held(redis_url: str, raw: Redis, queue_name: str, fails: bool) -> None:
    """What it runs, and what waits in its buffer."""
    gate, left = Gate(), [1] if fails else []

    async def handler(job: Job) -> Any:
        await gate(job)
        if left and left.pop():
            raise ValueError("once")

    async with consuming(redis_url, queue_name, handler, concurrency=1, claim_min_idle_ms=CLAIM_MS):
        await add(redis_url, queue_name, "running", "buffered")
        await until(lambda: gate.started == ["running"])
        await until(lambda: _holds(raw, queue_name, 2))
        await _delete_consumer(raw, queue_name)
        gate.open()
        await until(lambda: stream_is_empty(raw, queue_name))
        await until(lambda: len(gate.finished) == 2 + fails)
    assert sorted(gate.finished) == sorted(["running", "buffered", *(["running"] if fails else [])])
    assert await dead_letters_of(raw, queue_name) == []


async def test_a_long_job_stays_its_workers(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Nobody else takes it up meanwhile: its worker's next heartbeat makes it its own again."""
    gate, other = Gate(), Recorder()
    async with consuming(redis_url, queue_name, gate, concurrency=1, claim_min_idle_ms=CLAIM_MS):
        await add(redis_url, queue_name, "long")
        await until(lambda: gate.started == ["long"])
        await _delete_consumer(raw, queue_name)
        async with consuming(redis_url, queue_name, other, claim_min_idle_ms=CLAIM_MS):
            await asyncio.sleep(4 * CLAIM_MS / 1000)
            assert await _holds(raw, queue_name, 1)
        gate.open()
        await until(lambda: stream_is_empty(raw, queue_name))
    assert (gate.finished, other.payloads) == (["long"], [])


async def test_what_a_dead_worker_held_is_taken_up(
    redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    stream = QueueKeys(queue_name).stream
    await add(redis_url, queue_name, *range(3))
    await raw.xgroup_create(stream, "default", "0")
    await raw.xreadgroup("default", "dead", {stream: ">"})
    await _delete_consumer(raw, queue_name)
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen, claim_min_idle_ms=CLAIM_MS):
        await add(redis_url, queue_name, "new")
        await until(lambda: stream_is_empty(raw, queue_name))
    assert seen.payloads == ["new", 0, 1, 2]
    assert "reclaimed 3 orphaned entries" in caplog.text
    assert "deleted manually" in caplog.text


async def test_what_a_new_group_has_yet_to_give_out_is_nobodys_to_keep(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    """Kept by a heartbeat, it would be given out all the same, and run by two."""
    stream = QueueKeys(queue_name).stream
    await add(redis_url, queue_name, "x")
    await raw.xgroup_create(stream, "default", "0")
    ((_, ((entry_id, _),)),) = await raw.xreadgroup("default", "me", {stream: ">"})
    await raw.xgroup_destroy(stream, "default")
    connector = Connector(redis_url, queue_name, "test")
    who, link = GroupMember(connector.keys, "default", "me"), connector.link(A_MOMENT_S)
    try:
        assert await group.heartbeat(link, who, [entry_id]) == [entry_id], "without a group it is nobody's"
        await raw.xgroup_create(stream, "default", "0")
        assert await group.heartbeat(link, who, [entry_id]) == [entry_id]
        assert await group.list_orphans(link, who) == []
        await raw.xreadgroup("default", "another", {stream: ">"})
        assert await group.heartbeat(link, who, [entry_id]) == [entry_id]
        assert await pending(raw, queue_name) == {entry_id: b"another"}
    finally:
        await connector.close()
