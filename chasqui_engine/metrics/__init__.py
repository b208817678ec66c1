"""Metrics: the events of `chasqui_engine.metrics.events`, the guard, and the sinks that ship with the engine.

Optional dependencies are imported only when a sink that needs them is created.
"""

from __future__ import annotations

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
from chasqui_engine.metrics.in_memory import DurationStats, InMemorySink, MetricsSnapshot
from chasqui_engine.metrics.otel import OtelSink
from chasqui_engine.metrics.prometheus import PrometheusSink
from chasqui_engine.metrics.queue_gauges import Reading, queue_registry
from chasqui_engine.metrics.safe_sink import SafeSink, guard

__all__ = [
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
