"""A failed job runs again: later, one attempt on, otherwise as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import AddOptions, BackoffSpec, HandlerError, JobRetryOverride, RetryConfig
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import monotonic
from tests.support.consumers import add, consuming, producing
from tests.support.queues import dead_letters_of, events_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


class Failing:
    """Fails every job a number of times, and notes when each run began."""

    def __init__(self, times: int = 1_000_000) -> None:
        self.times = times
        self.jobs: list[Job] = []
        self.at: list[float] = []

    async def __call__(self, job: Job) -> None:
        self.jobs.append(job)
        self.at.append(monotonic())
        if job.attempt < self.times:
            raise ValueError(f"run {job.attempt}")


async def _delayed(raw: Redis, queue: str) -> list[tuple[bytes, float]]:
    members: list[tuple[bytes, float]] = await raw.zrange(QueueKeys(queue).delayed, 0, -1, withscores=True)
    return members


async def test_the_attempt_goes_up_until_it_succeeds(redis_url: str, raw: Redis, queue_name: str) -> None:
    handler = Failing(times=2)
    async with consuming(redis_url, queue_name, handler, max_attempts=3):
        (job_id,) = await add(redis_url, queue_name, {"k": 1})
        await until(lambda: len(handler.jobs) == 3)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert [(job.id, job.payload, job.attempt) for job in handler.jobs] == [(job_id, {"k": 1}, n) for n in range(3)]
    assert len({job.created_at_ms for job in handler.jobs}) == 1
    assert await dead_letters_of(raw, queue_name) == []


@pytest.mark.parametrize(("own", "queue_wide", "runs"), [(2, 5, 2), (5, 2, 5), (None, 3, 3), (1, 3, 1), (0, 3, 0)])
async def test_the_jobs_own_limit_counts_before_the_workers(
    redis_url: str, raw: Redis, queue_name: str, own: int | None, queue_wide: int, runs: int
) -> None:
    handler = Failing()
    async with consuming(redis_url, queue_name, handler, max_attempts=queue_wide):
        async with producing(redis_url, queue_name) as producer:
            override = JobRetryOverride(max_attempts=own, backoff=BackoffSpec.fixed(1, jitter_ms=0))
            await producer.add_with_options("x", AddOptions(retry=override))
        await until(lambda: dead_letters_of(raw, queue_name))
    assert len(handler.jobs) == runs
    assert all(job.retry == override for job in handler.jobs)


async def test_backoff_counts_by_the_servers_clock(redis_url: str, raw: Redis, queue_name: str) -> None:
    """The score is the moment of failure there, plus the backoff; nobody's own clock has a say."""
    async with consuming(
        redis_url, queue_name, Failing(), delayed_enabled=False, retry=RetryConfig(initial_backoff_ms=5000, jitter_ms=0)
    ):
        before = await raw.time()
        await add(redis_url, queue_name, 1)
        ((_, score),) = await until(lambda: _delayed(raw, queue_name))
        after = await raw.time()
    low, high = (seconds * 1000 + micros // 1000 for seconds, micros in (before, after))
    assert low + 5000 <= score <= high + 5000


async def test_backoff_grows_and_is_capped(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with consuming(
        redis_url,
        queue_name,
        Failing(),
        max_attempts=5,
        retry=RetryConfig(initial_backoff_ms=20, multiplier=3.0, max_backoff_ms=100, jitter_ms=0),
    ):
        await add(redis_url, queue_name, 1)
        await until(lambda: dead_letters_of(raw, queue_name))
    told = [event for event in await events_of(raw, queue_name) if event["e"] == "retry-scheduled"]
    assert [(event["attempt"], event["backoff_ms"]) for event in told] == [
        ("2", "20"), ("3", "60"), ("4", "100"), ("5", "100"),
    ]  # fmt: skip


async def test_a_retry_is_not_early_and_not_very_late(redis_url: str, raw: Redis, queue_name: str) -> None:
    handler = Failing(times=1)
    async with consuming(redis_url, queue_name, handler, retry=RetryConfig(initial_backoff_ms=300, jitter_ms=0)):
        await add(redis_url, queue_name, 1)
        await until(lambda: len(handler.at) == 2)
    assert 0.29 <= handler.at[1] - handler.at[0] < 2


async def test_jitter_spreads_both_ways(redis_url: str, raw: Redis, queue_name: str) -> None:
    retry = RetryConfig(initial_backoff_ms=1000, jitter_ms=400)
    async with consuming(redis_url, queue_name, Failing(), delayed_enabled=False, retry=retry):
        await add(redis_url, queue_name, *range(100))
        await until(lambda: stream_is_empty(raw, queue_name))
    told = [int(e["backoff_ms"]) for e in await events_of(raw, queue_name) if e["e"] == "retry-scheduled"]
    assert len(told) == 100
    assert all(600 <= backoff <= 1400 for backoff in told)
    assert min(told) < 900
    assert max(told) > 1100


async def test_the_jobs_own_backoff_counts_before_the_workers(redis_url: str, raw: Redis, queue_name: str) -> None:
    """A fixed one, one that grows, and one of a kind that only a newer release knows."""
    specs = {
        "fixed": BackoffSpec.fixed(7, jitter_ms=0),
        "grows": BackoffSpec.exponential(4, multiplier=5.0, max_ms=50, jitter_ms=0),
        "newer": BackoffSpec("fibonacci", 3, None, 2.0, 0),
    }
    async with consuming(redis_url, queue_name, Failing(), max_attempts=4):
        async with producing(redis_url, queue_name) as producer:
            for name, spec in specs.items():
                await producer.add_with_options(1, AddOptions(name=name, retry=JobRetryOverride(backoff=spec)))
        await until(lambda: _three_are_dead(raw, queue_name))
    told: dict[str, list[str]] = {}
    for event in await events_of(raw, queue_name):
        if event["e"] == "retry-scheduled":
            told.setdefault(event["n"], []).append(event["backoff_ms"])
    assert told == {"fixed": ["7"] * 3, "grows": ["4", "20", "50"], "newer": ["3", "6", "12"]}


async def _three_are_dead(raw: Redis, queue: str) -> bool:
    return len(await dead_letters_of(raw, queue)) == 3


INLINE = msgpack.packb(["job-1", {"user": 7, "tags": ["a", "b"], 1: None}, 1_700_000_000_000, 0])
"""As a Rust producer with a typed payload writes it: the value itself, not a bin around it."""
ODD_WIDTHS = b"\x95\xd9\x05job-2\xc5\x00\x01\x07\xcf\x00\x00\x01\x8b\xcf\xe5\x68\x00\xcc\x00\x92\x05\xc0"
"""Legal, though not in the shortest form, and with an override."""


@pytest.mark.parametrize(("envelope", "count_at"), [(INLINE, -1), (ODD_WIDTHS, None)])
async def test_every_other_byte_stays(
    redis_url: str, raw: Redis, queue_name: str, envelope: bytes, count_at: int | None
) -> None:
    keys = QueueKeys(queue_name)
    await raw.xadd(keys.stream, {b"d": envelope, b"n": "näme".encode()})
    async with consuming(redis_url, queue_name, Failing(), delayed_enabled=False):
        ((member, _),) = await until(lambda: _delayed(raw, queue_name))
    name = "näme".encode()
    assert member[:4] == len(name).to_bytes(4, "little")
    assert member[4 : 4 + len(name)] == name
    expected = envelope[:-1] + b"\x01" if count_at else envelope.replace(b"\xcc\x00", b"\x01")
    assert member[4 + len(name) :] == expected


async def test_name_and_override_come_with_the_next_run(redis_url: str, raw: Redis, queue_name: str) -> None:
    handler = Failing(times=1)
    override = JobRetryOverride(max_attempts=4, backoff=BackoffSpec("fixed", 1, 5, 1.5, 0))
    async with consuming(redis_url, queue_name, handler):
        async with producing(redis_url, queue_name) as producer:
            await producer.add_with_options([1], AddOptions(id="mine", name="näme", retry=override))
        await until(lambda: len(handler.jobs) == 2)
    assert [(job.id, job.name, job.retry, job.attempt) for job in handler.jobs] == [
        ("mine", "näme", override, 0),
        ("mine", "näme", override, 1),
    ]


async def test_a_handler_error_is_retried_with_its_cause_told(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> Any:
        raise HandlerError(KeyError("missing"))

    async with consuming(redis_url, queue_name, handler, max_attempts=2):
        await add(redis_url, queue_name, 1)
        await until(lambda: dead_letters_of(raw, queue_name))
    failed = [event["reason"] for event in await events_of(raw, queue_name) if event["e"] == "failed"]
    assert failed == ["'missing'", "'missing'"]


async def test_retries_travel_together_but_each_in_its_time(redis_url: str, raw: Redis, queue_name: str) -> None:
    """More failures at once than one script takes."""
    handler = Failing(times=1)
    async with consuming(redis_url, queue_name, handler, retry_inflight=7):
        await add(redis_url, queue_name, *range(100))
        await until(lambda: len(handler.jobs) == 200)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert sorted(job.payload for job in handler.jobs if job.attempt == 1) == list(range(100))
