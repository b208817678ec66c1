"""Jobs that end without having completed, and without a dead letter: what ChasquiMQ makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui_engine import JobExpiredError
from chasqui_engine.codec.envelope import decode_failure
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine._redis.commands.keys import QueueKeys
    from tests.wire.ours import Ours
    from tests.wire.theirs import Theirs


async def test_a_job_that_expired(ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys) -> None:
    """They see it nowhere, hear of it, and run the next one of its id."""
    await theirs.listen()
    job = await ours.add("n", 1, job_id="own")
    async with ours.working(max_age_secs=0):
        with pytest.raises(JobExpiredError):
            await job.wait_for_result(timeout=10)
    assert decode_failure(await server.get(keys.failure("own"))) == ("expired", None, 0)
    assert not await server.exists(keys.taken("own"))
    [event] = [event for event in await theirs.wait_for_event("expired") if event["name"] == "expired"]
    assert event["job_id"] == "own"
    assert await theirs.peek_dlq() == []
    await theirs.work()
    await ours.add("n", 2, job_id="own")
    assert [run[0] for run in await theirs.wait_for_runs(1)] == ["own"]


async def test_they_list_and_replay_an_expired_dead_letter(
    ours: Ours, theirs: Theirs, server: Redis, keys: QueueKeys
) -> None:
    job = await ours.add("n", 1)
    async with ours.working(max_age_secs=0, dead_letter_expired=True):
        await until(lambda: server.xlen(keys.dlq))
    [letter] = await theirs.peek_dlq()
    assert letter["reason"] == "expired"
    assert await theirs.replay_dlq() == 1
    await theirs.work()
    assert [run[0] for run in await theirs.wait_for_runs(1)] == [job.id]
