"""`Worker(backoff=…)`: the wait of jobs that have none of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import BackoffSpec, ConfigError, Queue, Worker
from tests.support.consumers import Recorder
from tests.support.queues import events_of, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis


@pytest.mark.parametrize(
    ("backoff", "low", "high"),
    [
        (40_000, 39_900, 40_100),
        (BackoffSpec.fixed(70_000, jitter_ms=0), 70_000, 70_000),
        ({"kind": "exponential", "delay_ms": 20_000, "jitter_ms": 0}, 20_000, 20_000),
    ],
    ids=repr,
)
async def test_a_failed_job_waits_as_its_worker_says_unless_it_says_itself(
    redis_url: str, raw: Redis, queue_name: str, backoff: Any, low: int, high: int
) -> None:
    async def fail(job: Any) -> None:
        raise ValueError("no")

    worker = Worker(queue_name, fail, redis_url=redis_url, backoff=backoff, run_scheduler=False)
    async with Queue(queue_name, redis_url=redis_url) as queue, working(worker):
        await queue.add("mine", 1)
        await queue.add("own", 2, backoff=BackoffSpec.fixed(9_000, jitter_ms=0))
        await until(lambda: _retries(raw, queue_name, 2))
    waits = {event["n"]: int(event["backoff_ms"]) for event in await _retries(raw, queue_name, 2)}
    assert low <= waits["mine"] <= high
    assert waits["own"] == 9_000


async def _retries(raw: Redis, queue: str, count: int) -> list[dict[str, str]]:
    found = [event for event in await events_of(raw, queue) if event["e"] == "retry-scheduled"]
    return found if len(found) == count else []


@pytest.mark.parametrize("backoff", [-1, {"kind": "fixed"}])
def test_a_wait_that_makes_no_sense_is_refused(backoff: Any) -> None:
    with pytest.raises(ConfigError, match="backoff"):
        Worker("q", Recorder(), backoff=backoff)
