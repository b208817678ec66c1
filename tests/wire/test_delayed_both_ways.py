"""Delayed jobs: either engine's promoter brings them, either cancels them, and an id is taken for both."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.codec.envelope import decode_delayed, decode_job
from tests.support.waiting import until
from tests.wire.ours import wait_for_runs

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs

MINUTE_MS = 60_000
DELAYED: list[dict[str, Any]] = [
    {"name": "", "data": 1},
    {"name": "later", "data": {"a": 1}},
    {"name": "発送", "data": None, "job_id": "order:{42}"},
    {"name": "retrying", "data": 1, "job_id": "id", "attempts": 7, "backoff": 100},
]
both_ways = pytest.mark.parametrize(("first", "second"), [("ours", "theirs"), ("theirs", "ours")])


@pytest.fixture
def engines(ours: Ours, theirs: Theirs) -> dict[str, Any]:
    return {"ours": ours, "theirs": theirs}


def id_of(job: Any) -> str:
    return str(job["id"] if isinstance(job, dict) else job.id)


async def test_they_promote_and_run_what_we_delay(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    jobs = [await ours.add(**job, delay_ms=50) for job in DELAYED]
    await theirs.work()
    runs = await theirs.wait_for_runs(len(jobs))
    assert sorted(run[:3] for run in runs) == sorted([job.id, job.name, job.data] for job in jobs)
    assert await server.exists(keys.delayed, keys.delayed_index("id"), keys.delayed_index("order:{42}")) == 0


async def test_we_promote_and_run_what_they_delay(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    jobs = [await theirs.add(**job, delay_ms=50) for job in DELAYED]
    async with ours.working() as runs:
        await wait_for_runs(runs, len(jobs))
    assert sorted(run[:3] for run in runs) == sorted([job["id"], job["name"], job["data"]] for job in jobs)
    assert await server.exists(keys.delayed, keys.delayed_index("id"), keys.delayed_index("order:{42}")) == 0


async def test_both_promoters_bring_each_job_once(ours: Ours, theirs: Theirs) -> None:
    await theirs.work()
    async with ours.working(delayed_lock_ttl_secs=1) as our_runs:
        adding = [queue.add("n", n, delay_ms=n) for n in range(1, 200) for queue in (ours, theirs)]
        ids = [id_of(job) for job in await asyncio.gather(*adding)]

        async def all_ran() -> bool:
            return len(our_runs) + len(await theirs.runs()) >= len(ids)

        await until(all_ran)
    assert sorted(run[0] for run in (*our_runs, *await theirs.runs())) == sorted(ids)


async def test_both_write_the_same_bytes(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """Member, index and the mark of a taken id, with the same time to live."""
    for job in DELAYED:
        records = []
        for queue in (ours, theirs):
            job_id = id_of(await queue.add(**job, delay_ms=MINUTE_MS))
            [(member, score)] = await server.zrange(keys.delayed, 0, -1, withscores=True)
            name, envelope = decode_delayed(member)
            decoded = decode_job(envelope, name)
            assert abs(score - decoded.created_at_ms - MINUTE_MS) < 2000
            taken, index = keys.taken(job_id), keys.delayed_index(job_id)
            assert await server.get(index) == (member if "job_id" in job else None)
            records.append(
                (
                    member.replace(decoded.created_at_ms.to_bytes(8, "big"), b"").replace(job_id.encode(), b""),
                    await server.get(taken),
                    [round(await server.ttl(key), -1) for key in (taken, index)],
                )
            )
            await server.delete(keys.delayed, taken, index)
        assert records[0] == records[1]


@both_ways
async def test_each_cancels_what_the_other_delayed(
    first: str, second: str, engines: dict[str, Any], server: Redis, keys: QueueKeys
) -> None:
    await engines[first].add("n", 1, delay_ms=MINUTE_MS, job_id="id")
    assert await engines[second].cancel_delayed("id") is True
    assert await engines[second].cancel_delayed("id") is False
    assert await engines[first].cancel_delayed("id") is False
    assert await server.exists(keys.delayed, keys.taken("id"), keys.delayed_index("id")) == 0


@both_ways
async def test_an_id_that_was_cancelled_is_free_for_the_other(
    first: str, second: str, engines: dict[str, Any], server: Redis, keys: QueueKeys
) -> None:
    await engines[first].add("n", 1, delay_ms=MINUTE_MS, job_id="id")
    await engines[first].cancel_delayed("id")
    await engines[second].add("n", 2, delay_ms=MINUTE_MS, job_id="id")
    [member] = await server.zrange(keys.delayed, 0, -1)
    assert decode_job(decode_delayed(member)[1]).payload == 2


@both_ways
async def test_an_id_is_delayed_once_whoever_asks(
    first: str, second: str, engines: dict[str, Any], server: Redis, keys: QueueKeys
) -> None:
    await engines[first].add("n", 1, delay_ms=MINUTE_MS, job_id="id")
    again = await engines[second].add("n", 2, delay_ms=MINUTE_MS, job_id="id")
    assert id_of(again) == "id"
    [member] = await server.zrange(keys.delayed, 0, -1)
    assert decode_job(decode_delayed(member)[1]).payload == 1


async def test_an_id_is_delayed_once_even_in_a_crowd(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    adding = [queue.add("n", 1, delay_ms=MINUTE_MS, job_id=f"id-{n}") for n in range(30) for queue in (ours, theirs)]
    await asyncio.gather(*adding)
    assert await server.zcard(keys.delayed) == 30


@both_ways
async def test_an_id_stays_taken_after_its_job_ran(
    first: str, second: str, engines: dict[str, Any], ours: Ours, server: Redis, keys: QueueKeys
) -> None:
    await engines[first].add("n", 1, delay_ms=20, job_id="id")
    async with ours.working() as runs:
        await wait_for_runs(runs, 1)
        await until(lambda: _is_empty(server, keys))
        await engines[second].add("n", 2, delay_ms=20, job_id="id")
        assert await server.zcard(keys.delayed) == 0
    assert len(runs) == 1


async def _is_empty(server: Redis, keys: QueueKeys) -> bool:
    return await server.xlen(keys.stream) == 0


async def test_we_cancel_what_they_delayed_without_an_id(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    jobs = [await theirs.add(name, 1, delay_ms=MINUTE_MS) for name in ("", "named", "発送")]
    for job in jobs:
        assert await ours.cancel_delayed(job["id"]) is True
    assert await server.zcard(keys.delayed) == 0
    assert await ours.cancel_delayed(jobs[0]["id"]) is False
