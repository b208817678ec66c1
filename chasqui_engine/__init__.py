"""Chasqui: a job queue on Redis Streams and MessagePack, sharing its queues with ChasquiMQ."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _installed_version

from chasqui_engine.backoff import BackoffKind, BackoffSpec, RetryConfig
from chasqui_engine.config import ConsumerConfig, ProducerConfig, PromoterConfig, SchedulerConfig
from chasqui_engine.consumer import Consumer, Handler
from chasqui_engine.delayed import DelayedJob
from chasqui_engine.errors import (
    ChasquiError,
    ConfigError,
    DecodeError,
    EncodeError,
    HandlerError,
    JobFailedError,
    JobTimeoutError,
    NotSupportedError,
    QueueFullError,
    RedisError,
    ResultUnavailableError,
    ShutdownError,
    UnrecoverableError,
)
from chasqui_engine.events import QueueEvent, QueueEvents
from chasqui_engine.health import QueueHealth
from chasqui_engine.job import AddOptions, DlqEntry, DlqReason, Job, JobId, JobRetryOverride
from chasqui_engine.metrics import InMemorySink, OtelSink, PrometheusSink
from chasqui_engine.producer import Producer
from chasqui_engine.promoter import Promoter
from chasqui_engine.queue import Queue
from chasqui_engine.registry import HandlerRegistry, handler
from chasqui_engine.repeat import (
    FirePlan,
    MissedFiresPolicy,
    RepeatableMeta,
    RepeatableSpec,
    RepeatPattern,
    first_fire_ms,
    plan_fires,
)
from chasqui_engine.scheduler import Scheduler
from chasqui_engine.sink import (
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
from chasqui_engine.snapshot import ConsumerInfo, JobInfo, JobState, QueueCounts, QueueSnapshot, Throughput
from chasqui_engine.sync import SyncQueue
from chasqui_engine.worker import Worker


def version() -> str:
    """The version of this package."""
    try:
        return _installed_version("chasqui")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+unknown"


__all__ = [
    "AddOptions",
    "BackoffKind",
    "BackoffSpec",
    "ChasquiError",
    "ConfigError",
    "Consumer",
    "ConsumerConfig",
    "ConsumerInfo",
    "DecodeError",
    "DelayedJob",
    "DlqEntry",
    "DlqReason",
    "DlqRouted",
    "EncodeError",
    "FirePlan",
    "Handler",
    "HandlerError",
    "HandlerRegistry",
    "InMemorySink",
    "Job",
    "JobFailedError",
    "JobId",
    "JobInfo",
    "JobOutcome",
    "JobOutcomeKind",
    "JobRetryOverride",
    "JobState",
    "JobTimeoutError",
    "LockOutcome",
    "MetricsSink",
    "MissedFiresPolicy",
    "NoopSink",
    "NotSupportedError",
    "OtelSink",
    "Producer",
    "ProducerConfig",
    "PrometheusSink",
    "Promoter",
    "PromoterConfig",
    "PromoterTick",
    "Queue",
    "QueueCounts",
    "QueueEvent",
    "QueueEvents",
    "QueueFullError",
    "QueueHealth",
    "QueueSnapshot",
    "ReaderBatch",
    "RedisError",
    "RepeatPattern",
    "RepeatableMeta",
    "RepeatableSpec",
    "ResultUnavailableError",
    "RetryConfig",
    "RetryScheduled",
    "Scheduler",
    "SchedulerConfig",
    "ShutdownError",
    "SyncQueue",
    "Throughput",
    "UnrecoverableError",
    "Worker",
    "first_fire_ms",
    "handler",
    "noop_sink",
    "plan_fires",
    "version",
]
