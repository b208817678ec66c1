"""What a consumer tells its sink: exactly this, and only after Redis confirmed it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chasqui_engine import AddOptions, UnrecoverableError
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.metrics import (
    DlqRouted,
    InMemorySink,
    JobOutcome,
    LockOutcome,
    MetricsSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
)
from tests.support.consumers import Gate, Recorder, add, consuming, pending, producing, steal
from tests.support.queues import dead_letters_of, stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job


def _runs(sink: InMemorySink) -> list[tuple[str, int, str]]:
    return [(str(run.kind), run.attempt, run.name) for run in sink.events(JobOutcome)]


async def test_one_job_through_failure_success_and_death(redis_url: str, raw: Redis, queue_name: str) -> None:
    sink = InMemorySink()

    async def handler(job: Job) -> None:
        await asyncio.sleep(0.01)
        if job.name == "dies":
            raise UnrecoverableError("no")
        if job.attempt == 0:
            raise ValueError("again")

    async with consuming(redis_url, queue_name, handler, metrics=sink, concurrency=1):
        async with producing(redis_url, queue_name) as producer:
            await producer.add_with_options(1, AddOptions(name="again"))
            await until(lambda: len(_runs(sink)) == 2)
            await producer.add_with_options(1, AddOptions(name="dies"))
        await until(lambda: sink.events(DlqRouted))
    assert _runs(sink) == [("err", 1, "again"), ("ok", 2, "again"), ("err", 1, "dies")]
    assert all(10_000 <= run.handler_duration_us < 5_000_000 for run in sink.events(JobOutcome))
    assert sink.events(RetryScheduled) == [RetryScheduled(attempt=2, backoff_ms=5, name="again")]
    assert sink.events(DlqRouted) == [DlqRouted(reason="unrecoverable", attempt=1, name="dies")]
    assert sum(tick.promoted for tick in sink.events(PromoterTick)) == 1
    assert [batch.reclaimed for batch in sink.events(ReaderBatch)] == [0, 0, 0]
    assert sum(batch.size for batch in sink.events(ReaderBatch)) == 3


async def test_burials_on_arrival_come_without_an_outcome(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Malformed, undecodable, too large, out of attempts: no handler ran."""
    sink = InMemorySink()
    stream = QueueKeys(queue_name).stream
    await add(redis_url, queue_name, "spent")
    await raw.xgroup_create(stream, "default", "0")
    ((_, ((spent, _),)),) = await raw.xreadgroup("default", "dead", {stream: ">"})
    await raw.xclaim(stream, "default", "dead", 0, [spent], retrycount=2, justid=True)
    for fields in ({"n": "nothing"}, {"d": b"\xc1"}, {"d": b"x" * 300, "n": "large"}):
        await raw.xadd(stream, fields)  # type: ignore[arg-type]
    async with consuming(
        redis_url, queue_name, Recorder(), metrics=sink, max_attempts=1, max_payload_bytes=200, claim_min_idle_ms=50
    ):
        await until(lambda: len(sink.events(DlqRouted)) == 4)
    assert sink.events(JobOutcome) == []
    assert sorted((dead.reason, dead.attempt, dead.name) for dead in sink.events(DlqRouted)) == [
        ("decode_failed", 0, ""),
        ("malformed", 0, "nothing"),
        ("oversize_payload", 0, "large"),
        ("retries_exhausted", 1, ""),
    ]
    assert sum(batch.size for batch in sink.events(ReaderBatch)) == 4
    assert sum(batch.reclaimed for batch in sink.events(ReaderBatch)) == 1


async def test_what_redis_did_not_confirm_is_not_told(redis_url: str, raw: Redis, queue_name: str) -> None:
    """Both were another's by then: two runs, but no retry and no burial."""
    sink, gate = InMemorySink(), Gate()

    async def handler(job: Job) -> None:
        await gate(job)
        raise UnrecoverableError("no") if job.payload == "bury" else ValueError("again")

    async with consuming(redis_url, queue_name, handler, metrics=sink):
        await add(redis_url, queue_name, "retry", "bury")
        await until(lambda: len(gate.started) == 2)
        await steal(raw, queue_name, list(await pending(raw, queue_name)))
        gate.open()
        await until(lambda: len(_runs(sink)) == 2)
        await asyncio.sleep(0.05)
    assert sink.events(RetryScheduled) == []
    assert sink.events(DlqRouted) == []


async def test_lock_outcomes_are_told_on_change_only(redis_url: str, raw: Redis, queue_name: str) -> None:
    first, second = InMemorySink(), InMemorySink()
    async with consuming(redis_url, queue_name, Recorder(), metrics=first) as leader:
        await until(lambda: len(first.events(PromoterTick)) > 3)
        async with consuming(redis_url, queue_name, Recorder(), metrics=second, delayed_lock_ttl_secs=1):
            await until(lambda: second.events(LockOutcome) == [LockOutcome.HELD])
            await asyncio.sleep(0.3)
            await leader.stop()
            await until(lambda: len(second.events(PromoterTick)) > 3)
    assert first.events(LockOutcome) == [LockOutcome.ACQUIRED]
    assert second.events(LockOutcome) == [LockOutcome.HELD, LockOutcome.ACQUIRED]


class Raging(MetricsSink):
    """Fails at everything it is told."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("promoter_tick", "promoter_lock_outcome", "reader_batch"):
            return _rage
        if name in ("job_outcome", "retry_scheduled", "dlq_routed"):
            return _rage
        return super().__getattribute__(name)


def _rage(event: object) -> None:
    raise RuntimeError("the sink is broken")


async def test_a_sink_that_raises_disturbs_no_job(redis_url: str, raw: Redis, queue_name: str) -> None:
    async def handler(job: Job) -> None:
        if job.payload == "dies":
            raise UnrecoverableError("no")
        if job.payload == "fails" and job.attempt == 0:
            raise ValueError("again")

    async with consuming(redis_url, queue_name, handler, metrics=Raging(), store_results=True):
        ids = await add(redis_url, queue_name, "fine", "fails", "dies")
        await until(lambda: raw.exists(QueueKeys(queue_name).result(ids[1])))
        await until(lambda: stream_is_empty(raw, queue_name))
    assert await raw.exists(QueueKeys(queue_name).result(ids[0])) == 1
    assert len(await dead_letters_of(raw, queue_name)) == 1
