"""Repeatable specs: either engine's scheduler fires them, and counts on from where the other stopped."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import MissedFiresPolicy, RepeatPattern
from chasqui_engine.codec.envelope import decode_job
from tests.support.waiting import until
from tests.wire.theirs import Theirs

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours

FAR_MS = int(time.time() + 86_400) * 1000
EVERY_SECOND = {"kind": "cron", "expression": "* * * * * *"}
EVERY_50_MS = {"kind": "every", "interval_ms": 50}
SPECS: list[dict[str, Any]] = [
    {"repeat": {"kind": "cron", "expression": "0 2 * * *"}},
    {"repeat": {"kind": "cron", "expression": "15 4 * * 1-5", "tz": "America/New_York"}, "limit": 3},
    {"repeat": {"kind": "cron", "expression": "*/5 * * * * *", "tz": "+05:30"}, "missed_fires": {"kind": "fire-once"}},
    {"repeat": {"kind": "every", "interval_ms": 1500}, "start_after_ms": FAR_MS, "end_before_ms": FAR_MS + 10**6},
    {
        "repeat": {"kind": "every", "interval_ms": 86_400_000},
        "limit": 2**40,
        "missed_fires": {"kind": "fire-all", "max_catchup": 5},
    },
]
DATA = {"to": "ada", "n": [1, None, 2.5]}


async def upsert(queue: Any, name: str, data: Any, **options: Any) -> str:
    if isinstance(queue, Theirs):
        return str((await queue.upsert_repeatable_job(name, data, **options))["id"])
    options["repeat"] = RepeatPattern(**options["repeat"])
    return (await queue.upsert_repeatable_job(name, data, **options)).id


async def jobs_in_stream(server: Redis, keys: QueueKeys) -> list[Any]:
    entries = await server.xrange(keys.stream)
    return [decode_job(fields[b"d"], fields[b"n"].decode()) for _, fields in entries]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec["repeat"].get("expression", "every"))
async def test_both_store_the_same_bytes(
    spec: dict[str, Any], ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    our_key = await upsert(ours, "n", DATA, **spec)
    our_hash, our_next = await server.hgetall(keys.spec(our_key)), await server.zscore(keys.repeat, our_key)
    await server.delete(keys.repeat, keys.spec(our_key))
    their_key = await upsert(theirs, "n", DATA, **spec)
    assert their_key == our_key
    assert await server.hgetall(keys.spec(their_key)) == our_hash
    their_next = await server.zscore(keys.repeat, their_key)
    assert their_next is not None
    assert our_next is not None
    # Theirs keeps a fraction of a second; the two were stored a moment apart.
    assert abs(their_next - our_next) < 5001 if "*/5" in our_key else abs(their_next - our_next) < 2000


async def test_each_lists_the_specs_of_the_other_as_its_own(ours: Ours, theirs: Theirs) -> None:
    for number, spec in enumerate(SPECS):
        await upsert((ours, theirs)[number % 2], f"n{number}", DATA, **spec)
    listed, seen = await ours.get_repeatable_jobs(), await theirs.get_repeatable_jobs()
    assert len(listed) == len(seen) == len(SPECS)
    for our_meta, their_meta in zip(listed, seen, strict=True):
        pattern = {name: value for name, value in their_meta["pattern"].items() if value is not None}
        assert our_meta.pattern.to_dict() == pattern
        for field in ("key", "job_name", "next_fire_ms", "limit", "start_after_ms", "end_before_ms"):
            assert getattr(our_meta, field) == their_meta[field]
        policy = their_meta["missed_fires"]
        expected = policy and MissedFiresPolicy(policy["kind"], policy.get("max_catchup"))
        assert our_meta.missed_fires == expected


async def test_each_removes_the_specs_of_the_other(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    our_key = await upsert(ours, "ours", 1, **SPECS[0])
    their_key = await upsert(theirs, "theirs", 1, **SPECS[0])
    assert await theirs.remove_repeatable_by_key(our_key) is True
    assert await theirs.remove_repeatable_by_key(our_key) is False
    assert await ours.remove_repeatable_by_key(their_key) is True
    assert await ours.remove_repeatable_by_key(their_key) is False
    assert await server.exists(keys.repeat, keys.spec(our_key), keys.spec(their_key)) == 0


@pytest.mark.parametrize("repeat", [EVERY_50_MS, EVERY_SECOND], ids=["every", "cron"])
async def test_they_fire_what_we_stored(
    repeat: dict[str, Any], ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    key = await upsert(ours, "tick", DATA, repeat=repeat, limit=2)
    await theirs.schedule()
    await until(lambda: _gone(server, keys, key))
    jobs = await jobs_in_stream(server, keys)
    assert [(job.name, job.payload, job.attempt, job.retry) for job in jobs] == [("tick", DATA, 0, None)] * 2


async def test_their_scheduler_drops_a_spec_whose_jobs_have_limits_of_their_own(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """It reads nine elements at most. So a tenth is written for nobody who does not ask for it."""
    limited = await upsert(ours, "limited", DATA, repeat=EVERY_50_MS, attempts=3)
    plain = await upsert(ours, "plain", DATA, repeat=EVERY_50_MS, limit=2)
    assert [meta["key"] for meta in await theirs.get_repeatable_jobs()] == [plain]
    await theirs.schedule()
    await until(lambda: _gone(server, keys, plain))
    await until(lambda: _nothing_left(server, keys))
    assert {job.name for job in await jobs_in_stream(server, keys)} == {"plain"}
    assert await server.exists(keys.spec(limited))  # what is left of it: an upsert makes it whole again
    assert await upsert(ours, "limited", DATA, repeat=EVERY_50_MS, attempts=3) == limited
    assert [meta.key for meta in await ours.get_repeatable_jobs()] == [limited]


async def test_their_worker_keeps_to_the_limits_of_a_repeatable(ours: Ours, theirs: Theirs) -> None:
    data = {"fail": "no"}
    await upsert(ours, "tick", data, repeat=EVERY_50_MS, limit=1, attempts=2, backoff=1)
    async with ours.scheduling():
        await theirs.work(max_attempts=9)
        await until(ours.peek_dlq)
    assert [run[3] for run in await theirs.runs()] == [0, 1]


@pytest.mark.parametrize("repeat", [EVERY_50_MS, EVERY_SECOND], ids=["every", "cron"])
async def test_we_fire_what_they_stored(
    repeat: dict[str, Any], ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    key = await upsert(theirs, "tick", DATA, repeat=repeat, limit=2)
    async with ours.scheduling():
        await until(lambda: _gone(server, keys, key))
    jobs = await jobs_in_stream(server, keys)
    assert [(job.name, job.payload, job.attempt, job.retry) for job in jobs] == [("tick", DATA, 0, None)] * 2


async def _gone(server: Redis, keys: QueueKeys, key: str) -> bool:
    """A spec that has reached its limit leaves nothing behind, whoever fired it last."""
    return await server.exists(keys.repeat, keys.spec(key)) == 0


async def test_they_do_not_fire_what_we_paused(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    paused = await upsert(ours, "paused", 1, repeat=EVERY_50_MS)
    assert await ours.pause_repeatable(paused)
    assert {meta["job_name"]: meta["next_fire_ms"] for meta in await theirs.get_repeatable_jobs()} == {"paused": 2**52}
    await upsert(theirs, "other", 1, repeat=EVERY_50_MS)
    await theirs.schedule()
    await until(lambda: _has_jobs(server, keys, 3))
    assert {job.name for job in await jobs_in_stream(server, keys)} == {"other"}
    assert await ours.resume_repeatable(paused)

    async def is_fired() -> bool:
        return "paused" in {job.name for job in await jobs_in_stream(server, keys)}

    await until(is_fired)


async def test_one_counts_on_from_where_the_other_stopped(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    key = await upsert(theirs, "tick", 1, repeat={"kind": "every", "interval_ms": 100}, limit=6)
    for scheduler in (ours.scheduling(), _theirs_scheduling(theirs), ours.scheduling()):
        async with scheduler:
            fired = len(await jobs_in_stream(server, keys))
            await until(lambda fired=fired: _has_jobs(server, keys, fired + 1))
    async with _theirs_scheduling(theirs):
        await until(lambda: _gone(server, keys, key))
    assert len(await jobs_in_stream(server, keys)) == 6


class _theirs_scheduling:  # noqa: N801 - the counterpart of `ours.scheduling`
    def __init__(self, theirs: Theirs) -> None:
        self._theirs = theirs

    async def __aenter__(self) -> None:
        await self._theirs.schedule()

    async def __aexit__(self, *exc: object) -> None:
        await self._theirs.stop()


async def _has_jobs(server: Redis, keys: QueueKeys, count: int) -> bool:
    return await server.xlen(keys.stream) >= count


async def test_an_upsert_of_either_keeps_the_count_of_fires(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    for queue in (ours, theirs):
        key = await upsert(queue, "tick", 1, **SPECS[0])
        await server.hset(keys.spec(key), "fired", 2)
        await upsert(queue, "tick", 2, **SPECS[0])
        assert await server.hget(keys.spec(key), "fired") == b"2"


async def test_two_schedulers_of_two_engines_fire_each_time_once(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    names = [f"tick-{n}" for n in range(20)]
    upserts = [upsert((ours, theirs)[n % 2], name, n, repeat=EVERY_50_MS, limit=5) for n, name in enumerate(names)]
    await asyncio.gather(*upserts)
    await theirs.schedule()
    async with ours.scheduling():
        await until(lambda: _gone(server, keys, f"{names[0]}::every:50"))
        await until(lambda: _nothing_left(server, keys))
    fires = [job.name for job in await jobs_in_stream(server, keys)]
    assert {name: fires.count(name) for name in names} == dict.fromkeys(names, 5)


async def _nothing_left(server: Redis, keys: QueueKeys) -> bool:
    return await server.zcard(keys.repeat) == 0
