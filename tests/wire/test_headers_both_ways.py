"""Headers where ChasquiMQ works on the same queue: it passes over them, and they are there again for our worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chasqui_engine import Job
from tests.support.consumers import consuming
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs

TENANT = {"tenant": "42"}


class Seen:
    """A handler that notes the headers of what it runs."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    async def __call__(self, job: Job) -> Any:
        self.jobs.append(job)


async def _is_empty(server: Redis, keys: QueueKeys) -> bool:
    return await server.xlen(keys.stream) == 0


async def test_they_run_a_job_with_headers(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    job = await ours.add("n", {"value": 5}, headers=TENANT)
    later = await ours.add("n", 1, headers=TENANT, delay_ms=20)
    await theirs.work(store_results=True)
    runs = await theirs.wait_for_runs(2)
    assert sorted(run[0] for run in runs) == sorted([job.id, later.id])
    await until(lambda: _is_empty(server, keys))
    assert await ours.get_job_result(job.id) == 5
    # They do not know the key: it stays for a day.
    assert 86_000 < await server.ttl(keys.headers(job.id)) <= 86_400


async def test_a_job_that_they_retry_has_its_headers_in_our_worker(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys, redis86_url: str
) -> None:
    """Their retry writes envelope and name only."""
    job = await ours.add("n", {"fail": "once", "times": 1}, headers=TENANT, attempts=2, backoff=2000)
    await theirs.work(max_attempts=2)
    await until(lambda: server.zcard(keys.delayed))
    await theirs.stop()
    seen = Seen()
    async with consuming(redis86_url, ours.name, seen):
        await until(lambda: seen.jobs)
    assert (seen.jobs[0].id, seen.jobs[0].attempt, seen.jobs[0].headers) == (job.id, 1, TENANT)


async def test_a_dead_letter_that_they_replay_has_its_headers_in_our_worker(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys, redis86_url: str
) -> None:
    job = await ours.add("n", {"bury": "no"}, headers=TENANT)
    async with ours.working():
        await until(lambda: server.xlen(keys.dlq))
    [letter] = await theirs.peek_dlq()
    assert letter["reason"] == "unrecoverable"
    assert await theirs.replay_dlq() == 1
    [(_, fields)] = await server.xrange(keys.stream)
    assert b"h" not in fields
    seen = Seen()
    async with consuming(redis86_url, ours.name, seen):
        await until(lambda: seen.jobs)
    assert (seen.jobs[0].id, seen.jobs[0].headers) == (job.id, TENANT)
