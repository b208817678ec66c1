"""Priorities where ChasquiMQ works on the same queue: it knows nothing of them, and gets every job in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_engine import Queue
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs


async def _is_empty(server: Redis, keys: QueueKeys) -> bool:
    return await server.xlen(keys.stream) + await server.zcard(keys.delayed) == 0


async def test_where_they_work_alone_a_job_comes_when_it_has_waited_too_long(
    theirs: Theirs, server: Redis, keys: QueueKeys, redis86_url: str
) -> None:
    async with Queue(keys.queue, redis_url=redis86_url, priority_max_wait_secs=1) as ours:
        await ours.add_bulk([{"name": "n", "data": n, "priority": 1 + n} for n in range(10)])
        await theirs.work()
        runs = await theirs.wait_for_runs(10)
        assert sorted(run[2] for run in runs) == list(range(10))
        await until(lambda: _is_empty(server, keys))
        # Nobody there forgets the ranks of what is gone: the next adds do.
        assert await server.zcard(keys.prio) == 10
        for n in range(30):
            await ours.add("n", n, priority=1)
            await until(lambda: _is_empty(server, keys))
        assert await server.zcard(keys.prio) < 10
        assert await server.hlen(keys.prio_jobs) == await server.zcard(keys.prio)


async def test_beside_our_worker_they_run_what_it_moves_up(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """What they take runs: the field of the priority is passed over."""
    await theirs.work()
    async with ours.working(concurrency=2) as runs:
        await ours.add_bulk([{"name": "n", "data": {"sleep": 0.01, "value": n}, "priority": 1} for n in range(200)])
        await until(lambda: _is_empty(server, keys))
        theirs_too = await theirs.runs()
    assert len({run[0] for run in [*runs, *theirs_too]}) == len(runs) + len(theirs_too) == 200


async def test_a_dead_letter_with_a_priority_is_replayed_by_them(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    job = await ours.add("n", {"bury": "no"}, priority=5)
    async with ours.working():
        await until(lambda: server.xlen(keys.dlq))
    [letter] = await theirs.peek_dlq()
    assert (letter["reason"], letter["name"]) == ("unrecoverable", "n")
    assert await theirs.replay_dlq() == 1
    [(_, fields)] = await server.xrange(keys.stream)
    assert b"p" not in fields
    async with ours.working() as runs:
        await until(lambda: runs)
    assert runs[0][0] == job.id


async def test_a_job_that_they_retry_is_run_when_it_is_due(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    """Their retry does not keep the priority: it comes no later than without one."""
    await ours.add("n", {"fail": "once", "times": 1}, priority=9, attempts=2, backoff=10)
    assert await server.zcard(keys.prio) == 1
    [job] = await ours.get_jobs("prioritized")
    assert await ours.run_delayed_now(job.id)
    assert await server.zcard(keys.prio) == 0
    await theirs.work()
    runs = await theirs.wait_for_runs(2)
    assert [run[3] for run in runs] == [0, 1]
