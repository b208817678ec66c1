"""The guard: a sink that raises never disturbs the caller, and its failures reach the log without flooding it."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from chasqui_engine.metrics import (
    DlqRouted,
    InMemorySink,
    JobOutcome,
    JobOutcomeKind,
    LockOutcome,
    MetricsSink,
    NoopSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
    SafeSink,
    guard,
    noop_sink,
)
from chasqui_engine.values.errors import ConfigError

TICK = PromoterTick(promoted=1, depth=2, oldest_pending_lag_ms=3)
BATCH = ReaderBatch(size=4, reclaimed=1)
OUTCOME = JobOutcome(kind=JobOutcomeKind.OK, attempt=1, handler_duration_us=5, name="send")
RETRY = RetryScheduled(attempt=2, backoff_ms=100, name="send")
DLQ = DlqRouted(reason="malformed", attempt=0, name="send")

METHODS = ["promoter_tick", "promoter_lock_outcome", "reader_batch", "job_outcome", "retry_scheduled", "dlq_routed"]


class Raising(MetricsSink):
    """Raises the same error from every method."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def promoter_tick(self, tick: PromoterTick) -> None:
        raise self.error

    def promoter_lock_outcome(self, outcome: LockOutcome) -> None:
        raise self.error

    def reader_batch(self, batch: ReaderBatch) -> None:
        raise self.error

    def job_outcome(self, outcome: JobOutcome) -> None:
        raise self.error

    def retry_scheduled(self, retry: RetryScheduled) -> None:
        raise self.error

    def dlq_routed(self, dlq: DlqRouted) -> None:
        raise self.error


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def tell_all(sink: MetricsSink) -> None:
    sink.promoter_tick(TICK)
    sink.promoter_lock_outcome(LockOutcome.ACQUIRED)
    sink.reader_batch(BATCH)
    sink.job_outcome(OUTCOME)
    sink.retry_scheduled(RETRY)
    sink.dlq_routed(DLQ)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [
        record for record in caplog.records if record.name == "chasqui.metrics" and record.levelno == logging.WARNING
    ]


def test_every_event_reaches_the_sink() -> None:
    inner = InMemorySink()
    tell_all(guard(inner))
    assert inner.events(PromoterTick) == [TICK]
    assert inner.events(LockOutcome) == [LockOutcome.ACQUIRED]
    assert inner.events(ReaderBatch) == [BATCH]
    assert inner.events(JobOutcome) == [OUTCOME]
    assert inner.events(RetryScheduled) == [RETRY]
    assert inner.events(DlqRouted) == [DLQ]


def test_only_a_sink_that_does_nothing_is_disabled() -> None:
    class Counting(NoopSink):
        pass

    assert guard(noop_sink()).enabled is False
    assert guard(NoopSink()).enabled is False
    assert guard(MetricsSink()).enabled is False
    assert guard(Counting()).enabled is True
    assert guard(InMemorySink()).enabled is True


def test_a_disabled_guard_may_be_called_all_the_same() -> None:
    safe = guard(noop_sink())
    tell_all(safe)
    assert safe.failures == {}


def test_guarding_twice_is_guarding_once() -> None:
    safe = guard(InMemorySink())
    assert isinstance(safe, SafeSink)
    assert guard(safe) is safe


def test_the_first_failure_of_each_method_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    error = RuntimeError("no such series")
    safe = guard(Raising(error))
    tell_all(safe)
    records = warnings_of(caplog)
    assert [record.getMessage() for record in records] == [
        f"the metrics sink failed in Raising.{method}; jobs are not affected" for method in METHODS
    ]
    assert all(record.exc_info is not None and record.exc_info[1] is error for record in records)
    assert "no such series" in caplog.text
    assert "Traceback" in caplog.text
    assert safe.failures == dict.fromkeys(METHODS, 1)


def test_later_failures_are_logged_once_a_minute_with_a_count(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    safe = guard(Raising(KeyError("x")), clock=clock)
    for _ in range(10):
        safe.job_outcome(OUTCOME)
    assert len(warnings_of(caplog)) == 1
    clock.now_s += 59.9
    safe.job_outcome(OUTCOME)
    assert len(warnings_of(caplog)) == 1
    clock.now_s += 0.1
    safe.job_outcome(OUTCOME)
    safe.job_outcome(OUTCOME)
    clock.now_s += 60
    safe.job_outcome(OUTCOME)
    later = warnings_of(caplog)[1:]
    assert [record.getMessage() for record in later] == [
        "the metrics sink failed 11 more time(s) in Raising.job_outcome: KeyError",
        "the metrics sink failed 2 more time(s) in Raising.job_outcome: KeyError",
    ]
    assert all(record.exc_info is None for record in later)
    assert safe.failures == {"job_outcome": 14}


def test_methods_are_counted_and_logged_apart(caplog: pytest.LogCaptureFixture) -> None:
    safe = guard(Raising(ValueError()), clock=Clock())
    safe.job_outcome(OUTCOME)
    safe.job_outcome(OUTCOME)
    safe.dlq_routed(DLQ)
    assert len(warnings_of(caplog)) == 2
    assert safe.failures == {"job_outcome": 2, "dlq_routed": 1}


def test_the_clock_may_start_at_zero(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    clock.now_s = 0.0
    safe = guard(Raising(ValueError()), clock=clock)
    safe.job_outcome(OUTCOME)
    assert len(warnings_of(caplog)) == 1
    clock.now_s = 59.0
    safe.job_outcome(OUTCOME)
    assert len(warnings_of(caplog)) == 1
    clock.now_s = 60.0
    safe.job_outcome(OUTCOME)
    assert "failed 2 more time(s)" in warnings_of(caplog)[-1].getMessage()


def test_an_error_whose_text_cannot_be_made_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

        __repr__ = __str__

    clock = Clock()
    safe = guard(Raising(MuteError()), clock=clock)
    safe.job_outcome(OUTCOME)
    clock.now_s += 60
    safe.job_outcome(OUTCOME)
    assert len(warnings_of(caplog)) == 2


def test_a_sink_without_a_method_is_survived(caplog: pytest.LogCaptureFixture) -> None:
    class Partial:
        pass

    safe = guard(Partial())  # type: ignore[arg-type]
    safe.job_outcome(OUTCOME)
    assert "AttributeError" in caplog.text


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_what_must_reach_the_event_loop_passes(error: BaseException) -> None:
    safe = guard(Raising(error))
    with pytest.raises(type(error)):
        safe.job_outcome(OUTCOME)
    assert safe.failures == {}


async def test_a_cancelled_task_stays_cancelled() -> None:
    class Cancelling(MetricsSink):
        def job_outcome(self, outcome: JobOutcome) -> None:
            raise asyncio.CancelledError

    async def work() -> None:
        guard(Cancelling()).job_outcome(OUTCOME)

    task = asyncio.create_task(work())
    await asyncio.wait([task])
    assert task.cancelled()


def test_an_asynchronous_sink_is_refused() -> None:
    class Asynchronous(MetricsSink):
        async def job_outcome(self, outcome: JobOutcome) -> None:  # type: ignore[override]
            pass

    with pytest.raises(ConfigError, match=r"Asynchronous\.job_outcome is 'async def'"):
        guard(Asynchronous())


def test_failures_in_many_threads_are_all_counted(caplog: pytest.LogCaptureFixture) -> None:
    safe = guard(Raising(ValueError()), clock=Clock())
    start = threading.Barrier(8)

    def fail() -> None:
        start.wait()
        for _ in range(500):
            safe.job_outcome(OUTCOME)

    threads = [threading.Thread(target=fail) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert safe.failures == {"job_outcome": 4_000}
    assert len(warnings_of(caplog)) == 1
