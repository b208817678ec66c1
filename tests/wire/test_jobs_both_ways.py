"""Adding and running: a job that one engine adds, the other runs, and takes over when the first one fails it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import JobRetryOverride
from chasqui_engine.codec.envelope import decode_delayed, decode_job, encode_envelope, with_attempt
from tests.support.waiting import until
from tests.wire.ours import wait_for_runs

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs

PAYLOADS: list[Any] = [None, True, 0, -1, 2**63, 1.5, "", "héllo", [], [1, [2, {"a": None}]], {}, {"to": "ada"}]
EXPONENTIAL = {"kind": "exponential", "delay_ms": 250, "max_delay_ms": 10_000, "multiplier": 3.0, "jitter_ms": 50}
JOBS: list[dict[str, Any]] = [
    *({"name": f"n{number}", "data": payload} for number, payload in enumerate(PAYLOADS)),
    {"name": "", "data": "without a name"},
    {"name": "発送" * 20, "data": "a name in another script"},
    {"name": "with an id", "data": 1, "job_id": "order:{42}"},
    {"name": "attempts", "data": 1, "attempts": 7},
    {"name": "fixed", "data": 1, "backoff": 100},
    {"name": "exponential", "data": 1, "attempts": 300, "backoff": EXPONENTIAL},
]


async def add_all(queue: Any) -> list[tuple[str, str, Any]]:
    """One by one, then those that say nothing special in bulk; returns (id, name, data)."""
    jobs = [await queue.add(**job) for job in JOBS]
    plain = [job for job in JOBS if job.keys() == {"name", "data"}]
    jobs += await queue.add_bulk(plain)
    fields = [job if isinstance(job, dict) else {"id": job.id, "name": job.name, "data": job.data} for job in jobs]
    return [(job["id"], job["name"], job["data"]) for job in fields]


def given(runs: list[Any]) -> list[tuple[str, str, Any]]:
    assert all(attempt == 0 for _id, _name, _data, attempt, _created in runs)
    return [(job_id, name, data) for job_id, name, data, _attempt, _created in runs]


async def test_they_run_what_we_add(ours: Ours, theirs: Theirs) -> None:
    added = await add_all(ours)
    await theirs.work()
    runs = await theirs.wait_for_runs(len(added))
    assert sorted(given(runs), key=repr) == sorted(added, key=repr)


async def test_we_run_what_they_add(ours: Ours, theirs: Theirs) -> None:
    added = await add_all(theirs)
    async with ours.working() as runs:
        await wait_for_runs(runs, len(added))
    assert sorted(given(runs), key=repr) == sorted(added, key=repr)


async def test_both_write_the_same_bytes(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    for job in JOBS:
        await ours.add(**{"job_id": "id", **job})
        await theirs.add(**{"job_id": "id", **job})
        await server.delete(keys.taken("id"))
        (_, our_fields), (_, their_fields) = await server.xrange(keys.stream)
        assert list(our_fields) == list(their_fields)
        assert our_fields.get(b"n") == their_fields.get(b"n")
        created_at_ms = decode_job(their_fields[b"d"]).created_at_ms
        written = our_fields[b"d"].replace(
            decode_job(our_fields[b"d"]).created_at_ms.to_bytes(8, "big"), created_at_ms.to_bytes(8, "big")
        )
        assert written == their_fields[b"d"]
        await server.delete(keys.stream)


@pytest.mark.parametrize("adds", ["ours", "theirs"])
async def test_one_takes_over_where_the_other_failed(
    adds: str, ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """We fail it, they fail it, we run it: runs are counted across engines, and nothing else in the job changes."""
    data = {"fail": "no luck", "times": 2}
    backoff = {**EXPONENTIAL, "delay_ms": 9000}
    await (ours if adds == "ours" else theirs).add("fails", data, attempts=9, backoff=backoff)
    [(_, added)] = await server.xrange(keys.stream)
    async with ours.working() as our_runs:
        member = await until(lambda: server.zrange(keys.delayed, 0, -1))
    assert decode_delayed(member[0]) == ("fails", with_attempt(added[b"d"], 1))

    await server.zadd(keys.delayed, {member[0]: 0})
    await theirs.work()
    their_runs = await theirs.wait_for_runs(1)
    member = await until(lambda: server.zrange(keys.delayed, 0, -1))
    await theirs.stop()
    assert decode_delayed(member[0]) == ("fails", with_attempt(added[b"d"], 2))

    await server.zadd(keys.delayed, {member[0]: 0})
    async with ours.working() as our_last_runs:
        await wait_for_runs(our_last_runs, 1)
    runs = [*our_runs, *their_runs, *our_last_runs]
    assert [run[3] for run in runs] == [0, 1, 2]
    assert all(run[:3] == [runs[0][0], "fails", data] and run[4] == runs[0][4] for run in runs)


async def test_we_keep_to_the_limit_that_they_set(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    await theirs.add("fails", {"fail": "no luck"}, attempts=2, backoff=1)
    async with ours.working(max_attempts=5) as runs:
        await until(lambda: server.xlen(keys.dlq))
    assert [run[3] for run in runs] == [0, 1]


async def test_they_keep_to_the_limit_that_we_set(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    await ours.add("fails", {"fail": "no luck"}, attempts=2, backoff=1)
    await theirs.work(max_attempts=5)
    await until(lambda: server.xlen(keys.dlq))
    assert [run[3] for run in await theirs.runs()] == [0, 1]


async def add_worn_out(server: Redis, keys: QueueKeys) -> None:
    """Jobs with no run left when they arrive: their limit was lowered meanwhile, or is nothing at all."""
    await server.xadd(keys.stream, {"d": with_attempt(encode_envelope("worn-out", b"\xc0", 1), 3)})
    await server.xadd(keys.stream, {"d": encode_envelope("never", b"\xc0", 1, 0, JobRetryOverride(0))})


async def test_they_bury_what_has_no_run_left(theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    await add_worn_out(server, keys)
    await theirs.work(max_attempts=3)
    await until(lambda: _dead(server, keys, 2))
    assert await theirs.runs() == []


async def test_we_bury_what_has_no_run_left(ours: Ours, server: Redis, keys: QueueKeys) -> None:
    await add_worn_out(server, keys)
    async with ours.working(max_attempts=3) as runs:
        await until(lambda: _empty(server, keys))
    assert runs == []
    assert await server.xlen(keys.dlq) == 2


async def _dead(server: Redis, keys: QueueKeys, count: int) -> bool:
    return await server.xlen(keys.dlq) == count


async def _empty(server: Redis, keys: QueueKeys) -> bool:
    return await server.xlen(keys.stream) == 0


async def test_both_add_and_both_run_at_the_same_time(ours: Ours, theirs: Theirs) -> None:
    await theirs.work()
    async with ours.working() as our_runs:
        adding = [queue.add(f"n{n}", {"n": n}) for n in range(150) for queue in (ours, theirs)]
        jobs = await asyncio.gather(*adding)
        ids = [job["id"] if isinstance(job, dict) else job.id for job in jobs]

        async def all_ran() -> bool:
            return len(our_runs) + len(await theirs.runs()) >= len(ids)

        await until(all_ran)
    their_runs = await theirs.runs()
    assert sorted(run[0] for run in (*our_runs, *their_runs)) == sorted(ids)


async def test_twenty_thousand_jobs_run_once_each(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """Two producers and two workers of two engines on one queue."""
    bulks = [[{"name": "n", "data": start + n} for n in range(1000)] for start in range(0, 20_000, 1000)]
    await theirs.work()
    async with ours.working() as our_runs:
        await asyncio.gather(*((ours, theirs)[at % 2].add_bulk(bulk) for at, bulk in enumerate(bulks)))

        async def done() -> bool:
            summary = await server.xpending(keys.stream, "default")
            return summary["pending"] == 0 and await server.xlen(keys.stream) == 0

        await until(done, timeout_s=40)
    their_runs = await theirs.runs()
    assert sorted(run[2] for run in (*our_runs, *their_runs)) == list(range(20_000))
    assert len({run[0] for run in (*our_runs, *their_runs)}) == 20_000
    assert our_runs
    assert their_runs
    assert await server.xlen(keys.dlq) == await server.zcard(keys.delayed) == 0
