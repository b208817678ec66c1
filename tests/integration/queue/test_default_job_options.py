"""Options that every job of a queue gets unless its own call says otherwise."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import BackoffSpec, ConfigError, Queue, RepeatPattern
from tests.support.queues import delayed_jobs, waiting_jobs

if TYPE_CHECKING:
    from redis.asyncio import Redis

DEFAULTS = {"attempts": 5, "backoff": 200}


async def test_a_job_that_says_nothing_has_the_defaults(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url, default_job_options=DEFAULTS) as queue:
        await queue.add("one", 1)
        await queue.add_bulk([{"name": "two", "data": 2}, {"name": "three", "data": 3}])
        await queue.add_bulk([{"name": "four", "data": 4, "job_id": "mine"}])
    limits = [(job.name, job.retry) for job in await waiting_jobs(raw, queue_name)]
    assert [name for name, _ in limits] == ["one", "two", "three", "four"]
    for _, retry in limits:
        assert retry is not None
        assert (retry.max_attempts, retry.backoff) == (5, BackoffSpec.fixed(200))


async def test_an_option_of_its_own_replaces_that_default_only(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=redis_url, default_job_options=DEFAULTS) as queue:
        added = await queue.add("one", 1, attempts=2)
        await queue.add_bulk([{"name": "two", "data": 2, "backoff": 7}])
    first, second = [job.retry for job in await waiting_jobs(raw, queue_name)]
    assert first == added.retry
    assert first is not None
    assert second is not None
    assert (first.max_attempts, first.backoff) == (2, BackoffSpec.fixed(200))
    assert (second.max_attempts, second.backoff) == (5, BackoffSpec.fixed(7))


async def test_a_default_delay_and_a_delay_of_its_own(redis_url: str, raw: Redis, queue_name: str) -> None:
    options = {"delay": timedelta(hours=1)}
    async with Queue(queue_name, redis_url=redis_url, default_job_options=options) as queue:
        await queue.add("later", 1)
        await queue.add_bulk([{"name": "later too", "data": 2}])
        await queue.add("now", 3, delay_ms=0)
    assert [job.name for job, _ in await delayed_jobs(raw, queue_name)] == ["later", "later too"]
    assert [job.name for job in await waiting_jobs(raw, queue_name)] == ["now"]


async def test_a_repeatable_keeps_to_its_own_limits(redis_url: str, queue_name: str) -> None:
    """With limits, a scheduler of ChasquiMQ 1.3.0 would drop it, and its `add` did not ask for them."""
    async with Queue(queue_name, redis_url=redis_url, default_job_options=DEFAULTS) as queue:
        await queue.add("tick", 1, repeat=RepeatPattern.every(3_600_000))
        [meta] = await queue.get_repeatable_jobs()
    assert meta.retry is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"atempts": 3}, "'atempts'"),
        ({"job_id": "same"}, "'job_id'"),
        ({"attempts": -1}, "max_attempts"),
        ({"backoff": {"kind": "fixed"}}, "backoff"),
        ({"delay_ms": -1}, "delay_ms"),
        ({"delay_ms": 1, "delay": timedelta(1)}, "not both"),
        ([("attempts", 3)], "must be a dict"),
    ],
    ids=repr,
)
def test_what_no_job_can_have_is_refused_by_name(options: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Queue("q", default_job_options=options)
