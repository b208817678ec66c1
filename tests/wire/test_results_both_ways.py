"""Results: what a handler returned under one engine, the other reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import JobFailedError, ResultUnavailableError
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs

RESULTS: list[Any] = [True, 0, -1, 2**63, 1.5, "", "héllo", [], [1, [2, {"a": None}]], {"to": "ada"}]


async def add_all(queue: Any) -> list[str]:
    jobs = await queue.add_bulk([{"name": "n", "data": {"value": value}} for value in RESULTS])
    return [job["id"] if isinstance(job, dict) else job.id for job in jobs]


async def stored(server: Redis, keys: QueueKeys, ids: list[str]) -> list[bytes]:
    return [await until(lambda job_id=job_id: server.get(keys.result(job_id))) for job_id in ids]


async def test_they_read_the_results_of_our_worker(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    ids = await add_all(theirs)
    async with ours.working(store_results=True, result_ttl_secs=100):
        await stored(server, keys, ids)
    assert await theirs.get_job_result_bulk(ids) == RESULTS
    assert [await theirs.get_job_result(job_id) for job_id in ids] == RESULTS
    assert await theirs.wait_for_result(ids[-1], timeout=5) == RESULTS[-1]
    assert 90 < await server.ttl(keys.result(ids[0])) <= 100


async def test_we_read_the_results_of_their_worker(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    ids = await add_all(ours)
    await theirs.work(store_results=True, result_ttl_ms=100_000)
    assert [await ours.wait_for_result(job_id, timeout=10) for job_id in ids] == RESULTS
    assert await ours.get_job_result_bulk(ids) == RESULTS
    assert 90 < await server.ttl(keys.result(ids[0])) <= 100


async def test_both_store_the_same_bytes(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    ids = await add_all(ours)
    async with ours.working(store_results=True):
        by_us = await stored(server, keys, ids)
    ids = await add_all(theirs)
    await theirs.work(store_results=True)
    assert await stored(server, keys, ids) == by_us


@pytest.mark.parametrize("store_results", [True, False])
async def test_our_waiter_learns_that_their_worker_stored_nothing(
    store_results: bool, ours: Ours, theirs: Theirs
) -> None:
    job = await ours.add("n", {"value": None})
    waiting = asyncio.create_task(job.wait_for_result(timeout=10))
    await theirs.work(store_results=store_results)
    with pytest.raises(ResultUnavailableError):
        await waiting


async def test_our_waiter_does_not_mind_when_their_promoter_tells_late(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """Theirs may tell that a job waits when it has run already; and of a result of nothing it stores none."""
    waiting = asyncio.create_task(ours.wait_for_result("id", timeout=4))
    for event in ("active", "completed", "waiting"):
        await server.xadd(keys.events, {"e": event, "id": "id", "ts": 1, "attempt": 1})
    with pytest.raises(ResultUnavailableError):
        await waiting


async def test_our_waiter_learns_that_a_job_died_under_their_worker(ours: Ours, theirs: Theirs) -> None:
    job = await ours.add("n", {"bury": "no such address"})
    waiting = asyncio.create_task(job.wait_for_result(timeout=10))
    await theirs.work(store_results=True)
    with pytest.raises(JobFailedError) as caught:
        await waiting
    assert (caught.value.reason, caught.value.detail, caught.value.attempt) == ("unrecoverable", "no such address", 1)
