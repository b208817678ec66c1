"""The in-memory sink: what it keeps, what it sums up, and that threads do not lose counts."""

from __future__ import annotations

import dataclasses
import json
import threading

import pytest

from chasqui_engine.metrics import (
    DlqRouted,
    DurationStats,
    InMemorySink,
    JobOutcome,
    JobOutcomeKind,
    LockOutcome,
    MetricsSnapshot,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
)
from chasqui_engine.values.errors import ConfigError

OK, ERR, PANIC = JobOutcomeKind


def ran(kind: JobOutcomeKind = OK, took_us: int = 10, name: str = "send", attempt: int = 1) -> JobOutcome:
    return JobOutcome(kind=kind, attempt=attempt, handler_duration_us=took_us, name=name)


def test_a_new_sink_has_seen_nothing() -> None:
    assert InMemorySink().snapshot() == MetricsSnapshot(
        outcomes={OK: 0, ERR: 0, PANIC: 0},
        by_name={},
        handler_duration=None,
        retries=0,
        dlq_by_reason={},
        batches=0,
        entries_read=0,
        reclaimed=0,
        promoted=0,
        delayed_depth=None,
        max_pending_lag_ms=0,
        locks={LockOutcome.ACQUIRED: 0, LockOutcome.HELD: 0},
        dropped=0,
    )


def test_outcomes_are_summed_by_kind_and_by_name() -> None:
    sink = InMemorySink()
    for outcome in [ran(), ran(ERR), ran(PANIC), ran(name="bill"), ran(ERR, name="bill"), ran(name="")]:
        sink.job_outcome(outcome)
    snapshot = sink.snapshot()
    assert snapshot.outcomes == {"ok": 3, "err": 2, "panic": 1}
    assert snapshot.completed == 3
    assert snapshot.failed == 3
    assert snapshot.by_name == {
        "send": {OK: 1, ERR: 1, PANIC: 1},
        "bill": {OK: 1, ERR: 1, PANIC: 0},
        "": {OK: 1, ERR: 0, PANIC: 0},
    }


def test_retries_and_burials_are_summed() -> None:
    sink = InMemorySink()
    sink.retry_scheduled(RetryScheduled(attempt=2, backoff_ms=100))
    sink.retry_scheduled(RetryScheduled(attempt=3, backoff_ms=200))
    for reason in ["malformed", "retries_exhausted", "malformed"]:
        sink.dlq_routed(DlqRouted(reason=reason, attempt=0))
    snapshot = sink.snapshot()
    assert snapshot.retries == 2
    assert snapshot.dlq_by_reason == {"malformed": 2, "retries_exhausted": 1}
    assert snapshot.buried == 3


def test_reader_and_promoter_are_summed() -> None:
    sink = InMemorySink()
    sink.reader_batch(ReaderBatch(size=5, reclaimed=2))
    sink.reader_batch(ReaderBatch(size=1, reclaimed=0))
    sink.promoter_tick(PromoterTick(promoted=3, depth=9, oldest_pending_lag_ms=400))
    sink.promoter_tick(PromoterTick(promoted=4, depth=5, oldest_pending_lag_ms=0))
    sink.promoter_lock_outcome(LockOutcome.ACQUIRED)
    sink.promoter_lock_outcome(LockOutcome.HELD)
    sink.promoter_lock_outcome(LockOutcome.HELD)
    snapshot = sink.snapshot()
    assert (snapshot.batches, snapshot.entries_read, snapshot.reclaimed) == (2, 6, 2)
    assert (snapshot.promoted, snapshot.delayed_depth, snapshot.max_pending_lag_ms) == (7, 5, 400)
    assert snapshot.locks == {LockOutcome.ACQUIRED: 1, LockOutcome.HELD: 2}


def test_handler_durations() -> None:
    sink = InMemorySink()
    for took_us in reversed(range(1, 201)):
        sink.job_outcome(ran(took_us=took_us))
    assert sink.snapshot().handler_duration == DurationStats(
        count=200, min_us=1, max_us=200, mean_us=100.5, p50_us=100, p95_us=190, p99_us=198
    )


def test_one_duration_is_every_percentile() -> None:
    sink = InMemorySink()
    sink.job_outcome(ran(took_us=0))
    assert sink.snapshot().handler_duration == DurationStats(
        count=1, min_us=0, max_us=0, mean_us=0.0, p50_us=0, p95_us=0, p99_us=0
    )


def test_events_come_back_in_order_and_as_a_copy() -> None:
    sink = InMemorySink()
    sink.job_outcome(ran(attempt=1))
    sink.job_outcome(ran(attempt=2))
    events = sink.events(JobOutcome)
    assert [event.attempt for event in events] == [1, 2]
    events.clear()
    assert len(sink.events(JobOutcome)) == 2
    assert sink.events(DlqRouted) == []


def test_the_oldest_events_are_dropped_and_the_sums_stay_whole() -> None:
    sink = InMemorySink(max_events=3)
    for took_us in [1_000, 1, 2, 3, 4]:
        sink.job_outcome(ran(took_us=took_us))
    sink.dlq_routed(DlqRouted(reason="malformed", attempt=0))
    snapshot = sink.snapshot()
    assert [event.handler_duration_us for event in sink.events(JobOutcome)] == [2, 3, 4]
    assert snapshot.dropped == 2
    assert snapshot.completed == 5
    assert snapshot.handler_duration == DurationStats(
        count=5, min_us=1, max_us=1_000, mean_us=202.0, p50_us=3, p95_us=4, p99_us=4
    )
    assert snapshot.buried == 1


def test_a_sink_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_events"):
        InMemorySink(max_events=0)


def test_a_snapshot_is_frozen_and_does_not_follow_the_sink() -> None:
    sink = InMemorySink()
    sink.job_outcome(ran())
    before = sink.snapshot()
    sink.job_outcome(ran())
    sink.job_outcome(ran(name="bill"))
    assert before.completed == 1
    assert before.by_name == {"send": {OK: 1, ERR: 0, PANIC: 0}}
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.retries = 1  # type: ignore[misc]


def test_a_snapshot_can_be_written_as_json() -> None:
    sink = InMemorySink()
    sink.job_outcome(ran())
    sink.promoter_lock_outcome(LockOutcome.ACQUIRED)
    written = json.loads(json.dumps(dataclasses.asdict(sink.snapshot())))
    assert written["by_name"] == {"send": {"ok": 1, "err": 0, "panic": 0}}
    assert written["locks"] == {"acquired": 1, "held": 0}


def test_reset_forgets_everything() -> None:
    sink = InMemorySink(max_events=1)
    sink.job_outcome(ran())
    sink.job_outcome(ran())
    sink.promoter_tick(PromoterTick(promoted=3, depth=9, oldest_pending_lag_ms=400))
    sink.reset()
    assert sink.snapshot() == InMemorySink().snapshot()
    assert sink.events(JobOutcome) == []


def test_threads_lose_no_count_and_snapshots_are_whole() -> None:
    sink = InMemorySink(max_events=1_000)
    start = threading.Barrier(9)

    def work(number: int) -> None:
        start.wait()
        for _ in range(1_000):
            sink.job_outcome(ran(name=f"job-{number}"))
            sink.reader_batch(ReaderBatch(size=2, reclaimed=1))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    start.wait()
    for _ in range(50):
        seen = sink.snapshot()
        assert seen.entries_read == 2 * seen.batches
        assert seen.completed == sum(outcomes[OK] for outcomes in seen.by_name.values())
    for thread in threads:
        thread.join()
    snapshot = sink.snapshot()
    assert snapshot.completed == 8_000
    assert snapshot.by_name == {f"job-{number}": {OK: 1_000, ERR: 0, PANIC: 0} for number in range(8)}
    assert snapshot.reclaimed == 8_000
    assert snapshot.dropped == 14_000
