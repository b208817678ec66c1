"""A handler may have its job run later: after a while or at a time, as a run that counts or as none."""

from __future__ import annotations

import logging
import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, JobFailedError, Queue, RetryLater, Worker
from chasqui_engine.metrics import InMemorySink, JobOutcome, JobOutcomeKind, RetryScheduled
from tests.support.consumers import add, consuming
from tests.support.queues import dead_letters_of, delayed_jobs, events_of, server_ms, stream_is_empty, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


class Postponing:
    """Postpones each job a number of times."""

    def __init__(self, times: int, **wish: Any) -> None:
        self.times = times
        self.wish = wish
        self.attempts: list[int] = []

    async def __call__(self, job: Job) -> str:
        self.attempts.append(job.attempt)
        if len(self.attempts) <= self.times:
            raise RetryLater(**self.wish)
        return "done"


def postpone_once(job: Job) -> str:
    """For a process of its own, which remembers nothing."""
    if job.attempt == 0:
        raise RetryLater(0.01, count=True)
    return "done"


async def test_a_postponed_run_counts_as_none(redis_url: str, raw: Redis, queue_name: str) -> None:
    handler = Postponing(5, delay=0.01)
    async with consuming(redis_url, queue_name, handler, max_attempts=2):
        await add(redis_url, queue_name, {"k": 1})
        await until(lambda: len(handler.attempts) == 6)
        await until(lambda: stream_is_empty(raw, queue_name))
    assert handler.attempts == [0] * 6
    assert await dead_letters_of(raw, queue_name) == []


async def test_a_postponed_run_that_counts_is_one_of_its_attempts(redis_url: str, raw: Redis, queue_name: str) -> None:
    handler = Postponing(5, delay=0.01, count=True)
    async with consuming(redis_url, queue_name, handler, max_attempts=3):
        await add(redis_url, queue_name, 1)
        await until(lambda: _has_died(raw, queue_name))
    assert handler.attempts == [0, 1, 2]
    [letter] = await dead_letters_of(raw, queue_name)
    assert letter["reason"] == b"retries_exhausted"
    assert b"RetryLater: " in letter["detail"]


async def _has_died(raw: Redis, queue: str) -> bool:
    return bool(await dead_letters_of(raw, queue))


@pytest.mark.parametrize("count", [False, True])
async def test_nothing_has_failed(redis_url: str, raw: Redis, queue_name: str, count: bool) -> None:
    handler, sink = Postponing(1, delay=0.01, count=count), InMemorySink()
    async with consuming(redis_url, queue_name, handler, metrics=sink):
        await add(redis_url, queue_name, 1)
        await until(lambda: stream_is_empty(raw, queue_name) if len(handler.attempts) == 2 else False)
    told = [(event["e"], event.get("attempt")) for event in await events_of(raw, queue_name)]
    second = str(1 + count)
    assert [one for one in told if one[0] != "drained"] == [
        ("active", "1"),
        ("retry-scheduled", second),
        ("waiting", None),
        ("active", second),
        ("completed", second),
    ]
    assert [scheduled.backoff_ms for scheduled in sink.events(RetryScheduled)] == [10]
    assert [outcome.kind for outcome in sink.events(JobOutcome)] == [JobOutcomeKind.OK]


async def test_the_delay_is_the_handlers_own(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Also beyond the worker's longest backoff."""
    before = await server_ms(raw)
    async with consuming(redis_url, queue_name, Postponing(1, delay=timedelta(hours=2))):
        await add(redis_url, queue_name, 1)
        await until(lambda: delayed_jobs(raw, queue_name))
    [(job, run_at_ms)] = await delayed_jobs(raw, queue_name)
    assert job.attempt == 0
    assert before + 7_200_000 <= run_at_ms <= await server_ms(raw) + 7_200_000


@pytest.mark.parametrize(("from_now", "later_s"), [(timedelta(days=1), 86_400), (timedelta(days=-1), 0)])
async def test_a_time_is_kept_to_the_millisecond_or_is_now(
    redis_url: str, raw: Redis, queue_name: str, from_now: timedelta, later_s: int
) -> None:
    at = (datetime.now(UTC) + from_now).replace(microsecond=123_000)
    handler = Postponing(1, at=at)
    async with consuming(redis_url, queue_name, handler):
        await add(redis_url, queue_name, 1)
        if later_s:
            await until(lambda: delayed_jobs(raw, queue_name))
            [(_, run_at_ms)] = await delayed_jobs(raw, queue_name)
            assert run_at_ms == round(at.timestamp() * 1000)
        else:
            await until(lambda: len(handler.attempts) == 2)
    [scheduled] = [event for event in await events_of(raw, queue_name) if event["e"] == "retry-scheduled"]
    # The millisecond that was asked for may be a later one of this very second.
    assert later_s * 1000 - 60_000 <= int(scheduled["backoff_ms"]) <= (later_s * 1000 + 123 if later_s else 0)


@pytest.mark.parametrize("where", ["thread", "process"])
async def test_plain_handlers_postpone_too(redis_url: str, queue_name: str, where: Any) -> None:
    worker = Worker(
        queue_name, postpone_once, redis_url=redis_url, run_plain_in=where, store_results=True, read_block_ms=50
    )
    async with working(worker), Queue(queue_name, redis_url=redis_url) as queue:
        job = await queue.add("n", 1, attempts=2)
        assert await job.wait_for_result(timeout=20) == "done"


async def test_a_waiter_waits_on_over_a_postponement(redis_url: str, queue_name: str) -> None:
    worker = Worker(
        queue_name, Postponing(3, delay=0.05), redis_url=redis_url, store_results=True, read_block_ms=50, max_attempts=1
    )
    async with working(worker), Queue(queue_name, redis_url=redis_url) as queue:
        assert await (await queue.add("n", 1)).wait_for_result(timeout=10) == "done"


async def test_it_is_logged_as_no_failure(
    redis_url: str, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "chasqui.consumer")
    async with consuming(redis_url, queue_name, Postponing(1, delay=60)):
        await add(redis_url, queue_name, 1)
        await until(lambda: delayed_jobs(raw, queue_name))
    [line] = [record for record in caplog.records if "postponed" in record.getMessage()]
    assert line.levelno == logging.INFO
    assert "runs again in 60.0 s" in line.getMessage()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("wish", "field"),
    [({}, "either"), ({"delay": 1, "at": 1.0}, "either"), ({"delay": -1}, "delay"), ({"at": float("nan")}, "at")],
)
async def test_a_wish_that_cannot_be_is_a_failure_that_says_so(
    redis_url: str, queue_name: str, wish: dict[str, Any], field: str
) -> None:
    with pytest.raises(ConfigError, match=field):
        RetryLater(**wish)
    worker = Worker(queue_name, Postponing(1, **wish), redis_url=redis_url, read_block_ms=50, max_attempts=1)
    async with working(worker), Queue(queue_name, redis_url=redis_url) as queue:
        job = await queue.add("n", 1)
        with pytest.raises(JobFailedError, match=field):
            await job.wait_for_result(timeout=10)


@pytest.mark.parametrize("wish", [{"delay": 1.5, "count": True}, {"at": 1_900_000_000.25}])
def test_it_survives_the_way_between_processes(wish: dict[str, Any]) -> None:
    wanted = RetryLater(**wish)
    copy = pickle.loads(pickle.dumps(wanted))
    assert (copy.count, copy.run_at_ms, str(copy)) == (wanted.count, wanted.run_at_ms, str(wanted))
    assert abs(copy.delay_ms - wanted.delay_ms) < 1000


async def test_runs_of_workers_that_died_stay_counted(redis_url: str, raw: Redis, queue_name: str) -> None:
    await add(redis_url, queue_name, 1)
    stream = f"{{chasqui:{queue_name}}}:stream"
    await raw.xgroup_create(stream, "default", "0")
    [[_, [(entry_id, _)]]] = await raw.xreadgroup("default", "dead", {stream: ">"})
    await raw.xclaim(stream, "default", "dead", 0, [entry_id], idle=60_000, retrycount=2)
    handler = Postponing(1, delay=60)
    async with consuming(redis_url, queue_name, handler, claim_min_idle_ms=300):
        await until(lambda: delayed_jobs(raw, queue_name))
    [(job, _)] = await delayed_jobs(raw, queue_name)
    assert job.attempt == 2
