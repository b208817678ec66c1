"""A job that ran well leaves the stream, with its result, if it is still ours; and only then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgpack
from redis.exceptions import ResponseError

from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.connections.proxy import Proxy
from tests.support.consumers import Gate, Recorder, add, consuming, pending, producing, steal
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    import pytest
    from redis.asyncio import Redis

    from chasqui_engine import Job


async def test_the_stream_is_empty_when_all_is_done(redis_url: str, raw: Redis, queue_name: str) -> None:
    seen = Recorder()
    async with consuming(redis_url, queue_name, seen):
        ids = await add(redis_url, queue_name, *range(1000))
        await until(lambda: len(seen.jobs) == 1000)
        await until(lambda: stream_is_empty(raw, queue_name))
        assert await pending(raw, queue_name) == {}
    assert sorted(job.id for job in seen.jobs) == ids


async def test_the_servers_own_ack_and_delete_is_used(redis_url: str, raw: Redis, queue_name: str) -> None:
    """`XACKDEL` where there is one, `XACK` and `XDEL` elsewhere: the server counts what it was asked."""
    before = await raw.info("commandstats")
    async with consuming(redis_url, queue_name, Recorder()):
        await add(redis_url, queue_name, 1)
        await until(lambda: _completed(raw, queue_name, 1))
    after = await raw.info("commandstats")

    def grew(command: str) -> bool:
        name = f"cmdstat_{command}"
        return bool(after.get(name, {}).get("calls", 0) > before.get(name, {}).get("calls", 0))

    has_ackdel = await _has_ackdel(raw, queue_name)
    assert [grew("xackdel"), grew("xack"), grew("xdel")] == [has_ackdel, not has_ackdel, not has_ackdel]


async def _has_ackdel(raw: Redis, queue: str) -> bool:
    try:
        await raw.execute_command("XACKDEL", QueueKeys(queue).stream, "default", "IDS", 1, "1-1")
    except ResponseError as err:
        return "unknown command" not in str(err)
    return True


async def _completed(raw: Redis, queue: str, count: int) -> bool:
    return sum(event["e"] == "completed" for event in await events_of(raw, queue)) == count


async def test_acks_travel_together(redis_url: str, raw: Redis, queue_name: str) -> None:
    """A thousand quick jobs take few scripts, not a thousand."""
    calls_before = await _script_calls(raw)
    async with consuming(redis_url, queue_name, Recorder(), events_enabled=False, delayed_enabled=False):
        await add(redis_url, queue_name, *range(1000))
        await until(lambda: stream_is_empty(raw, queue_name))
    assert await _script_calls(raw) - calls_before < 150


async def _script_calls(raw: Redis) -> int:
    stats = await raw.info("commandstats")
    return sum(int(stats.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in ("eval", "evalsha"))


async def test_a_lone_ack_does_not_wait_for_company(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with consuming(redis_url, queue_name, Recorder(), ack_batch=5000, ack_idle_ms=60_000):
        await add(redis_url, queue_name, 1)
        await until(lambda: _completed(raw, queue_name, 1))


async def test_results_are_stored_with_their_time_to_live(redis_url: str, raw: Redis, queue_name: str) -> None:
    values: list[Any] = [None, 0, "", {"a": [1, b"\x00"]}, [1.5, True], "ü"]

    async def handler(job: Job) -> Any:
        return values[job.payload]

    async with consuming(redis_url, queue_name, handler, store_results=True, result_ttl_secs=77):
        ids = await add(redis_url, queue_name, *range(len(values)))
        await until(lambda: stream_is_empty(raw, queue_name))
    keys = [QueueKeys(queue_name).result(job_id) for job_id in ids]
    stored = [await raw.get(key) for key in keys]
    assert [msgpack.unpackb(data) for data in stored] == values
    ttls = [await raw.ttl(key) for key in keys]
    assert all(70 <= ttl <= 77 for ttl in ttls), ttls


async def test_without_store_results_nothing_is_kept(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> str:
        return "not wanted"

    async with consuming(redis_url, queue_name, handler):
        (job_id,) = await add(redis_url, queue_name, 1)
        await until(lambda: _completed(raw, queue_name, 1))
    assert await raw.exists(QueueKeys(queue_name).result(job_id)) == 0


async def test_results_of_a_batch_go_to_their_own_keys(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Some of the batch lost, some failed: nobody gets another's result."""
    gate = Gate()

    async def handler(job: Job) -> Any:
        await gate(job)
        return {"for": job.payload}

    async with consuming(redis_url, queue_name, handler, store_results=True):
        ids = await add(redis_url, queue_name, *range(30))
        await until(lambda: len(gate.started) == 30)
        entries = list(await pending(raw, queue_name))
        await steal(raw, queue_name, entries[::3])
        gate.open()
        await until(lambda: _completed(raw, queue_name, 20))
    keys = [QueueKeys(queue_name).result(job_id) for job_id in ids]
    stored = await raw.mget(keys)
    expected = [None if n % 3 == 0 else {"for": n} for n in range(30)]
    assert [data and msgpack.unpackb(data) for data in stored] == expected
    assert list(await pending(raw, queue_name)) == entries[::3]


async def test_a_stolen_job_that_ran_well_is_not_ended_by_us(redis_url: str, raw: Redis, queue_name: str) -> None:
    gate = Gate()
    async with consuming(redis_url, queue_name, gate, store_results=True):
        (job_id,) = await add(redis_url, queue_name, "x")
        await until(lambda: gate.started)
        (entry_id,) = await pending(raw, queue_name)
        await steal(raw, queue_name, [entry_id])
        gate.open()
        await until(lambda: gate.finished)
        await add(redis_url, queue_name, "after")
        await until(lambda: _completed(raw, queue_name, 1))
    assert await pending(raw, queue_name) == {entry_id: b"thief"}
    assert await raw.exists(QueueKeys(queue_name).result(job_id)) == 0
    assert [event["e"] for event in await events_of(raw, queue_name) if event["id"] == job_id] == ["active"]


async def test_an_ack_whose_answer_was_lost_is_not_blamed_on_another_worker(
    redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent again and finds nothing to do: the log names all that may have been."""
    ran: list[str] = []
    async with Proxy(redis_url) as proxy:

        async def handler(job: Job) -> None:
            ran.append(job.payload)
            if job.payload == "late":
                proxy.hold_replies()

        async with consuming(proxy.url, queue_name, handler):
            for payload in ("first", "late"):  # the first one brings the scripts to the server
                await add(redis_url, queue_name, payload)
                await until(lambda: payload in ran)  # noqa: B023 - awaited at once
                await until(lambda: stream_is_empty(raw, queue_name))
            proxy.cut()
            await until(lambda: "lost jobs" in caplog.text)
    assert ran == ["first", "late"]
    assert "the reply to an earlier write was lost, another worker claimed them, or they were removed" in caplog.text


async def test_a_stolen_job_that_failed_is_neither_retried_nor_buried_by_us(
    redis_url: str, raw: Redis, queue_name: str
) -> None:
    gate = Gate()

    async def handler(job: Job) -> None:
        await gate(job)
        raise ValueError("no")

    async with consuming(redis_url, queue_name, handler, max_attempts=2, delayed_enabled=False):
        async with producing(redis_url, queue_name) as producer:
            await producer.add_bulk(["retry", "bury"])
        await until(lambda: len(gate.started) == 2)
        entries = sorted(await pending(raw, queue_name))
        await steal(raw, queue_name, entries)
        gate.open()
        await until(lambda: len(gate.finished) == 2)
        await asyncio.sleep(0.1)
    keys = QueueKeys(queue_name)
    assert sorted(await pending(raw, queue_name)) == entries
    assert await raw.zcard(keys.delayed) == 0
    assert await dead_letters_of(raw, queue_name) == []
    assert {event["e"] for event in await events_of(raw, queue_name)} == {"active"}
    assert [key async for key in raw.scan_iter(f"{keys.prefix}:failure:*")] == []


async def test_a_huge_result_is_stored_where_that_is_asked_for(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> bytes:
        return bytes(20_000_000)

    async with consuming(redis_url, queue_name, handler, store_results=True, max_result_bytes=30_000_000):
        (job_id,) = await add(redis_url, queue_name, 1)
        await until(lambda: stream_is_empty(raw, queue_name))
    key = QueueKeys(queue_name).result(job_id)
    assert await raw.strlen(key) == 20_000_005
    await raw.delete(key)
