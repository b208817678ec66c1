"""Chasqui: a job queue on Redis Streams and MessagePack, sharing its queues with ChasquiMQ.

A name is imported from its module when it is first asked for: a command or a worker starts with what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chasqui_engine.admin.delayed import DelayedJob
    from chasqui_engine.admin.health import QueueHealth
    from chasqui_engine.admin.job_lookup import JobInfo, JobState
    from chasqui_engine.admin.snapshot import ConsumerInfo, QueueCounts, QueueSnapshot, Throughput
    from chasqui_engine.backoff import BackoffKind, BackoffSpec, RetryConfig
    from chasqui_engine.config import ConsumerConfig, ProducerConfig, PromoterConfig, SchedulerConfig
    from chasqui_engine.consumer import Consumer, Handler
    from chasqui_engine.consumer.job_logging import JobIdFilter
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
        RefusedError,
        ResultUnavailableError,
        ShutdownError,
        UnrecoverableError,
    )
    from chasqui_engine.events import EVENT_NAMES, QueueEvent, QueueEvents
    from chasqui_engine.identity import name_program, version
    from chasqui_engine.job import AddOptions, DlqEntry, DlqReason, Job, JobId, JobRetryOverride
    from chasqui_engine.metrics import InMemorySink, OtelSink, PrometheusSink
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
    from chasqui_engine.producer import Producer
    from chasqui_engine.promoter import Promoter
    from chasqui_engine.queue import Queue
    from chasqui_engine.registry import HandlerRegistry, handler
    from chasqui_engine.schedule.plan import FirePlan, first_fire_ms, plan_fires
    from chasqui_engine.schedule.spec import MissedFiresPolicy, RepeatableMeta, RepeatableSpec, RepeatPattern
    from chasqui_engine.scheduler import Scheduler
    from chasqui_engine.sync import SyncQueue
    from chasqui_engine.worker import Worker

_HOMES = {
    "backoff": ("BackoffKind", "BackoffSpec", "RetryConfig"),
    "config": ("ConsumerConfig", "ProducerConfig", "PromoterConfig", "SchedulerConfig"),
    "consumer": ("Consumer", "Handler"),
    "consumer.job_logging": ("JobIdFilter",),
    "admin.delayed": ("DelayedJob",),
    "errors": (
        "ChasquiError",
        "ConfigError",
        "DecodeError",
        "EncodeError",
        "HandlerError",
        "JobFailedError",
        "JobTimeoutError",
        "NotSupportedError",
        "QueueFullError",
        "RedisError",
        "RefusedError",
        "ResultUnavailableError",
        "ShutdownError",
        "UnrecoverableError",
    ),
    "events": ("EVENT_NAMES", "QueueEvent", "QueueEvents"),
    "admin.health": ("QueueHealth",),
    "identity": ("name_program", "version"),
    "job": ("AddOptions", "DlqEntry", "DlqReason", "Job", "JobId", "JobRetryOverride"),
    "metrics": ("InMemorySink", "OtelSink", "PrometheusSink"),
    "producer": ("Producer",),
    "promoter": ("Promoter",),
    "queue": ("Queue",),
    "registry": ("HandlerRegistry", "handler"),
    "schedule.plan": ("FirePlan", "first_fire_ms", "plan_fires"),
    "schedule.spec": ("MissedFiresPolicy", "RepeatableMeta", "RepeatableSpec", "RepeatPattern"),
    "scheduler": ("Scheduler",),
    "metrics.events": (
        "DlqRouted",
        "JobOutcome",
        "JobOutcomeKind",
        "LockOutcome",
        "MetricsSink",
        "NoopSink",
        "PromoterTick",
        "ReaderBatch",
        "RetryScheduled",
        "noop_sink",
    ),
    "admin.job_lookup": ("JobInfo", "JobState"),
    "admin.snapshot": ("ConsumerInfo", "QueueCounts", "QueueSnapshot", "Throughput"),
    "sync": ("SyncQueue",),
    "worker": ("Worker",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # asked once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "EVENT_NAMES",
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
    "JobIdFilter",
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
    "RefusedError",
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
    "name_program",
    "noop_sink",
    "plan_fires",
    "version",
]
