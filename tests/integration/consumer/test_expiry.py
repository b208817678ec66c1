"""A job that has not begun in time ends as expired, or goes to the dead letters; one that has begun never does."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, ConsumerConfig, JobExpiredError, JobFailedError, JobState, Queue, RetryLater
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import encode_envelope, encode_payload
from tests.support.consumers import Recorder, consuming
from tests.support.queues import dead_letters_of, events_of, keys_of, server_ms, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

HOUR_S = 3600
HOUR_MS = HOUR_S * 1000


async def add_long_ago(raw: Redis, queue: str, job_id: str, *, attempt: int = 0, number: int = 0) -> None:
    """A job that has been on the stream for two hours."""
    entry_id = f"{await server_ms(raw) - 2 * HOUR_MS}-{number}"
    await raw.set(QueueKeys(queue).taken(job_id), "1")
    fields = {"d": encode_envelope(job_id, encode_payload("data"), 0, attempt), "n": "mail"}
    await raw.xadd(QueueKeys(queue).stream, fields, id=entry_id)


async def test_an_old_job_expires_and_a_new_one_runs(redis_url: str, raw: Redis, queue: Queue) -> None:
    handler = Recorder()
    await add_long_ago(raw, queue.name, "old")
    await queue.add("mail", "new", job_id="new")
    async with consuming(redis_url, queue.name, handler, max_age_secs=HOUR_S):
        await until(lambda: stream_is_empty(raw, queue.name))
    assert handler.payloads == ["new"]
    assert await dead_letters_of(raw, queue.name) == []
    expired = {"e": "expired", "id": "old", "n": "mail", "attempt": "1"}
    assert [event for event in await events_of(raw, queue.name) if event["id"] == "old"] == [expired]
    assert (await queue.get_job("old")).state is JobState.EXPIRED
    assert not await raw.exists(QueueKeys(queue.name).taken("old")), "its id is free"


async def test_waiters_learn_that_a_job_expired(redis_url: str, raw: Redis, queue: Queue) -> None:
    await add_long_ago(raw, queue.name, "old")
    async with consuming(redis_url, queue.name, Recorder(), max_age_secs=HOUR_S):
        with pytest.raises(JobExpiredError, match=r"^\[CMQ-303\] job old expired before it began$") as raised:
            await queue.wait_for_result("old", timeout=10)
    assert (raised.value.reason, raised.value.detail, raised.value.attempt) == ("expired", None, 0)
    assert isinstance(raised.value, JobFailedError)


async def test_expired_jobs_can_go_to_the_dead_letters(redis_url: str, raw: Redis, queue: Queue) -> None:
    await add_long_ago(raw, queue.name, "old")
    async with consuming(redis_url, queue.name, Recorder(), max_age_secs=HOUR_S, dead_letter_expired=True):
        with pytest.raises(JobExpiredError):
            await queue.wait_for_result("old", timeout=10)
    [letter] = await dead_letters_of(raw, queue.name)
    assert letter["reason"] == b"expired"
    info = await queue.get_job("old")
    assert (info.state, info.reason) == (JobState.DEAD, "expired")
    async with consuming(redis_url, queue.name, handler := Recorder(), max_age_secs=HOUR_S):
        assert await queue.replay_dlq() == 1
        await until(lambda: handler.jobs)


async def test_a_job_that_has_begun_does_not_expire(redis_url: str, raw: Redis, queue: Queue) -> None:
    """One that failed before, and one whose worker died."""
    await add_long_ago(raw, queue.name, "failed before", attempt=1, number=1)
    await add_long_ago(raw, queue.name, "taken over", number=2)
    stream = QueueKeys(queue.name).stream
    await raw.xgroup_create(stream, "default", "0")
    await raw.xreadgroup("default", "dead", {stream: ">"}, count=2)
    async with consuming(redis_url, queue.name, handler := Recorder(), max_age_secs=HOUR_S, claim_min_idle_ms=100):
        await until(lambda: len(handler.jobs) == 2)


async def test_a_delayed_job_is_as_old_as_it_is_due(redis_url: str, raw: Redis, queue: Queue) -> None:
    await queue.add("mail", 1, job_id="later", delay_ms=HOUR_MS)
    member = await raw.get(QueueKeys(queue.name).delayed_index("later"))
    await raw.zadd(queue.delayed_key, {member: await server_ms(raw) + 50})
    async with consuming(redis_url, queue.name, handler := Recorder(), max_age_secs=HOUR_S):
        await until(lambda: handler.jobs)


async def test_a_job_that_is_postponed_for_ever_is_not_expired_by_its_first_entry(
    redis_url: str, raw: Redis, queue: Queue
) -> None:
    runs: list[Job] = []

    async def postpone(job: Job) -> None:
        runs.append(job)
        if len(runs) < 3:
            raise RetryLater(0.01)

    await queue.add("mail", 1)
    async with consuming(redis_url, queue.name, postpone, max_age_secs=HOUR_S):
        await until(lambda: stream_is_empty(raw, queue.name) if len(runs) == 3 else False)


async def test_the_id_of_an_expired_job_is_free_for_another(redis_url: str, raw: Redis, queue: Queue) -> None:
    """What is left of the first is not taken for the end of the second."""
    await add_long_ago(raw, queue.name, "again")
    async with consuming(redis_url, queue.name, Recorder(), max_age_secs=HOUR_S):
        with pytest.raises(JobExpiredError):
            await queue.wait_for_result("again", timeout=10)
    await queue.add("mail", 1, job_id="again")
    assert queue.added == 1
    with pytest.raises(TimeoutError):
        await queue.wait_for_result("again", timeout=1.5)
    assert (await queue.get_job("again")).state is JobState.WAITING
    async with consuming(redis_url, queue.name, Recorder(), max_age_secs=HOUR_S, store_results=True):
        assert await queue.wait_for_result("again", timeout=10) is None


async def test_expired_jobs_leave_nothing_but_their_record(redis_url: str, raw: Redis, queue: Queue) -> None:
    for number in range(50):
        await add_long_ago(raw, queue.name, f"old-{number}", number=number)
    async with consuming(redis_url, queue.name, Recorder(), max_age_secs=HOUR_S):
        await until(lambda: stream_is_empty(raw, queue.name))
    keys = QueueKeys(queue.name)
    left = await keys_of(raw, queue.name)
    assert left - {keys.failure(f"old-{n}") for n in range(50)} <= {keys.stream, keys.events}
    assert all([0 < await raw.ttl(keys.failure(f"old-{n}")) <= 3600 for n in range(50)])


async def test_the_log_says_what_expired(
    redis_url: str, raw: Redis, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    await add_long_ago(raw, queue.name, "old")
    with caplog.at_level(logging.INFO, "chasqui.consumer"):
        async with consuming(redis_url, queue.name, Recorder(), max_age_secs=HOUR_S):
            await until(lambda: stream_is_empty(raw, queue.name))
    assert f"queue {queue.name}: job 'old' ('mail') expired before it began" in caplog.text


@pytest.mark.parametrize("value", [-1, "soon", True, float("nan"), 2**31])
def test_an_age_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(ConfigError, match="max_age_secs"):
        ConsumerConfig(max_age_secs=value)


# --- a job's own time ---


@pytest.mark.parametrize("kind", ["seconds", "timedelta", "datetime"])
async def test_a_job_that_has_not_begun_by_its_own_time_expires(redis_url: str, queue: Queue, kind: str) -> None:
    now = datetime.now(UTC)
    past, later = {
        "seconds": (0, HOUR_S),
        "timedelta": (timedelta(0), timedelta(hours=1)),
        "datetime": (now - timedelta(hours=1), now + timedelta(hours=1)),
    }[kind]
    await queue.add("mail", "old", job_id="old", expires=past, headers={"a": "b"})
    await queue.add("mail", "new", job_id="new", expires=later, headers={"a": "b"})
    async with consuming(redis_url, queue.name, handler := Recorder(), store_results=True):
        with pytest.raises(JobExpiredError):
            await queue.wait_for_result("old", timeout=10)
        await queue.wait_for_result("new", timeout=10)
    assert [(job.payload, job.headers) for job in handler.jobs] == [("new", {"a": "b"})]


async def test_a_bulk_has_jobs_with_and_without_a_time(redis_url: str, queue: Queue) -> None:
    jobs = [{"name": "mail", "data": n, "expires": 0 if n % 2 else None} for n in range(4)]
    added = await queue.add_bulk(jobs)
    async with consuming(redis_url, queue.name, handler := Recorder(), dead_letter_expired=True):
        for job in added[1::2]:
            with pytest.raises(JobExpiredError):
                await job.wait_for_result(timeout=10)
        await until(lambda: len(handler.jobs) == 2)
    assert handler.payloads == [0, 2]
    assert [letter["reason"] for letter in await queue.peek_dlq()] == ["expired", "expired"]


async def test_a_delayed_job_keeps_its_time(redis_url: str, queue: Queue) -> None:
    job = await queue.add("mail", 1, delay_ms=50, expires=0.01)
    async with consuming(redis_url, queue.name, handler := Recorder()):
        with pytest.raises(JobExpiredError):
            await job.wait_for_result(timeout=10)
    assert handler.jobs == []


async def test_a_job_that_began_in_time_is_retried_after_it(redis_url: str, raw: Redis, queue: Queue) -> None:
    runs = []

    async def fail(job: Job) -> None:
        runs.append(job.attempt)
        if not job.attempt:
            await asyncio.sleep(3)
            raise ValueError("no")

    async with consuming(redis_url, queue.name, fail):
        await queue.add("mail", 1, expires=3, attempts=2)
        await until(lambda: stream_is_empty(raw, queue.name) if len(runs) == 2 else False)


@pytest.mark.parametrize("expires", [-1, float("nan"), "1h", True])
async def test_a_bad_time_is_named(queue: Queue, expires: Any) -> None:
    with pytest.raises(ConfigError, match="expires must be"):
        await queue.add("mail", 1, expires=expires)
    with pytest.raises(ConfigError, match="expires must be"):
        await queue.add_bulk([{"name": "mail", "data": 1, "expires": expires}])
    assert (await queue.counts()).waiting == 0
