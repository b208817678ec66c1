"""The event values and the base class of all sinks."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from chasqui_engine import metrics
from chasqui_engine.metrics.events import (
    DlqRouted,
    JobOutcome,
    JobOutcomeKind,
    LockOutcome,
    MetricsSink,
    NoopSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
    noop_sink,
)

EVENTS = [
    PromoterTick(promoted=1, depth=2, oldest_pending_lag_ms=3),
    ReaderBatch(size=4, reclaimed=1),
    JobOutcome(kind=JobOutcomeKind.OK, attempt=1, handler_duration_us=5, name="send"),
    RetryScheduled(attempt=2, backoff_ms=100, name="send"),
    DlqRouted(reason="malformed", attempt=0, name="send"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_frozen_slotted_values(event: object) -> None:
    assert dataclasses.is_dataclass(event)
    assert not isinstance(event, type)
    assert not hasattr(event, "__dict__")
    assert dataclasses.replace(event) == event
    field = dataclasses.fields(event)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, field, 0)


def test_enums_carry_the_words_of_the_wire() -> None:
    assert [str(kind) for kind in JobOutcomeKind] == ["ok", "err", "panic"]
    assert [str(outcome) for outcome in LockOutcome] == ["acquired", "held"]


def test_a_job_without_a_name_has_the_empty_one() -> None:
    assert JobOutcome(kind=JobOutcomeKind.OK, attempt=1, handler_duration_us=1).name == ""
    assert RetryScheduled(attempt=2, backoff_ms=1).name == ""
    assert DlqRouted(reason="malformed", attempt=0).name == ""


def test_the_base_class_takes_every_event_and_does_nothing() -> None:
    sink = MetricsSink()
    tick, batch, outcome, retry, dlq = EVENTS
    assert isinstance(tick, PromoterTick)
    assert isinstance(batch, ReaderBatch)
    assert isinstance(outcome, JobOutcome)
    assert isinstance(retry, RetryScheduled)
    assert isinstance(dlq, DlqRouted)
    sink.promoter_tick(tick)
    sink.promoter_lock_outcome(LockOutcome.HELD)
    sink.reader_batch(batch)
    sink.job_outcome(outcome)
    sink.retry_scheduled(retry)
    sink.dlq_routed(dlq)


def test_the_noop_sink_is_one_shared_object() -> None:
    assert noop_sink() is noop_sink()
    assert isinstance(noop_sink(), NoopSink)


def test_exported_names() -> None:
    assert sorted(metrics.__all__) == [
        "DlqRouted",
        "DurationStats",
        "InMemorySink",
        "JobOutcome",
        "JobOutcomeKind",
        "LockOutcome",
        "MetricsSink",
        "MetricsSnapshot",
        "NoopSink",
        "OtelSink",
        "PrometheusSink",
        "PromoterTick",
        "ReaderBatch",
        "Reading",
        "RetryScheduled",
        "SafeSink",
        "guard",
        "noop_sink",
        "queue_registry",
    ]
    assert all(hasattr(metrics, name) for name in metrics.__all__)


def test_importing_the_metrics_imports_no_optional_dependency(pytestconfig: pytest.Config) -> None:
    look = "print({'prometheus_client', 'opentelemetry'} & sys.modules.keys())"
    program = [sys.executable, "-c", f"import sys, chasqui_engine.metrics; {look}"]
    done = subprocess.run(program, cwd=pytestconfig.rootpath, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "set()"
