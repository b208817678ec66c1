"""Settings: frozen, one class per role; the only place for defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from chasqui_engine.metrics.events import MetricsSink, noop_sink
from chasqui_engine.values.backoff import BackoffSpec, RetryConfig
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.ids import unique_name, worker_name
from chasqui_engine.values.job import Job
from chasqui_engine.values.validation import (
    LARGEST,
    check_number,
    check_queue_name,
    check_whole_number,
    warn_of_no_effect,
)

DEFAULT_URL = "redis://127.0.0.1:6379"
URL_VARIABLE = "CHASQUI_REDIS_URL"

WhenFull = Literal["error", "trim"]
RunPlainIn = Literal["thread", "process"]
TimeLimit = float | Callable[[Job], float | None] | None

_STREAM_LEN = 1_000_000
_EVENTS_LEN = 100_000
_LOCK_TTL_SECS = 5
_PRODUCERS_CAP = "only producers limit the length; set ProducerConfig.max_stream_len"
MAX_PRIORITY_WAIT_S = 30 * 24 * 3600
_MOST_PER_CALL = 5000
"""The limit of one script call: Lua accepts about eight thousand arguments."""


def _check_whole(config: object, minimum: int, *fields: str, most: int = LARGEST) -> None:
    for name in fields:
        check_whole_number(getattr(config, name), f"{type(config).__name__}.{name}", minimum, most)


def _check_seconds(config: object, *fields: str) -> None:
    for name in fields:
        value = check_number(getattr(config, name), f"{type(config).__name__}.{name}", unit="seconds")
        if value >= 2**31:
            raise ConfigError(f"{type(config).__name__}.{name} must be less than {2**31} seconds, got {value!r}")


def _check_flags(config: object, *fields: str) -> None:
    for name in fields:
        # A text such as "false" would count as true.
        if not isinstance(value := getattr(config, name), bool):
            raise ConfigError(f"{type(config).__name__}.{name} must be True or False, got {value!r}")


def _check_kind(config: object, name: str, kind: type) -> None:
    if not isinstance(value := getattr(config, name), kind):
        raise ConfigError(f"{type(config).__name__}.{name} must be a {kind.__name__}, got {type(value).__name__}")


def _check_choice(config: object, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in choices:
        raise ConfigError(f"{type(config).__name__}.{name} must be one of {', '.join(choices)}, got {value!r}")


def _warn_if_given(config: Any, name: str, advice: str) -> None:
    default = type(config).__dataclass_fields__[name]
    unset = default.default_factory() if callable(default.default_factory) else default.default
    if getattr(config, name) != unset:
        warn_of_no_effect(f"{type(config).__name__}.{name}", advice)


class _EmitsEvents:
    __slots__ = ()
    events_enabled: bool
    events_max_stream_len: int

    @property
    def events_max(self) -> int:
        """The cap of the events stream, as scripts take it; 0 emits nothing."""
        return self.events_max_stream_len if self.events_enabled else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(_EmitsEvents):
    """How jobs are put on a queue."""

    queue_name: str = "default"
    """The queue to put jobs on."""
    pool_size: int = 8
    """No effect: the engine opens two connections; one carries every task's commands, one waits for results."""
    max_stream_len: int = _STREAM_LEN
    """Jobs that may wait in the stream."""
    when_full: WhenFull = "error"
    """At `max_stream_len`: raise `QueueFullError`, or "trim": drop the oldest waiting jobs, as ChasquiMQ does."""
    max_delay_secs: int = 30 * 24 * 3600
    """The furthest a job may be delayed; 0 is no cap."""
    dedup_ttl_secs: int = 3600
    """How long an id stays taken after its job was due."""
    priority_max_wait_secs: int = 60
    """A job with a priority that has waited this long goes before all that have one. It holds for the whole queue; the
    producer that adds last says it."""
    events_enabled: bool = True
    """Whether delayed adds emit `delayed`. Adds for now emit nothing, as with ChasquiMQ: `active` follows at once."""
    events_max_stream_len: int = _EVENTS_LEN
    """Approximate number of events kept."""

    def __post_init__(self) -> None:
        check_queue_name(self.queue_name)
        _check_whole(self, 1, "pool_size", "max_stream_len", "dedup_ttl_secs", "events_max_stream_len")
        _check_whole(self, 1, "priority_max_wait_secs", most=MAX_PRIORITY_WAIT_S)
        _check_whole(self, 0, "max_delay_secs")
        _check_choice(self, "when_full", ("error", "trim"))
        _check_flags(self, "events_enabled")
        _warn_if_given(self, "pool_size", "two connections serve any number of tasks; leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterConfig(_EmitsEvents):
    """How due delayed jobs get onto the stream."""

    queue_name: str | None = None
    """The queue, where `Promoter` is not given its name."""
    poll_interval_ms: int = 100
    """How often the leader checks for due jobs."""
    promote_batch: int = 256
    """At most this many jobs per pass; the next pass follows at once."""
    max_stream_len: int = _STREAM_LEN
    """No effect: a promotion never drops a job because of a cap."""
    lock_ttl_secs: int = _LOCK_TTL_SECS
    """How long a dead leader keeps the lock."""
    holder_id: str = field(default_factory=lambda: unique_name("p"))
    """Its name in the leader lock."""
    events_enabled: bool = True
    """Whether a promotion emits `waiting`."""
    events_max_stream_len: int = _EVENTS_LEN
    """Approximate number of events kept."""
    metrics: MetricsSink = field(default_factory=noop_sink)
    """Receives a report of every pass."""

    def __post_init__(self) -> None:
        _check_whole(self, 1, "poll_interval_ms", "lock_ttl_secs", "max_stream_len", "events_max_stream_len")
        _check_whole(self, 1, "promote_batch", most=_MOST_PER_CALL)
        _check_flags(self, "events_enabled")
        _check_kind(self, "metrics", MetricsSink)
        check_queue_name(self.holder_id, "PromoterConfig.holder_id")
        check_queue_name("default" if self.queue_name is None else self.queue_name, "PromoterConfig.queue_name")
        _warn_if_given(self, "max_stream_len", _PRODUCERS_CAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """How repeatable specs turn into jobs."""

    queue_name: str | None = None
    """The queue, where `Scheduler` is not given its name."""
    tick_interval_ms: int = 1000
    """How often the leader checks for due specs."""
    batch: int = 256
    """At most this many specs per pass."""
    max_stream_len: int = _STREAM_LEN
    """No effect: a fire is never dropped because of a cap."""
    lock_ttl_secs: int = _LOCK_TTL_SECS
    """How long a dead leader keeps the lock."""
    holder_id: str = field(default_factory=lambda: unique_name("s"))
    """Its name in the leader lock."""
    metrics: MetricsSink = field(default_factory=noop_sink)
    """Hears whether it leads, as of a promoter. A scheduler inside a consumer without one uses the consumer's."""

    def __post_init__(self) -> None:
        _check_whole(self, 1, "tick_interval_ms", "batch", "lock_ttl_secs", "max_stream_len")
        _check_kind(self, "metrics", MetricsSink)
        check_queue_name(self.holder_id, "SchedulerConfig.holder_id")
        check_queue_name("default" if self.queue_name is None else self.queue_name, "SchedulerConfig.queue_name")
        _warn_if_given(self, "max_stream_len", _PRODUCERS_CAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(_EmitsEvents):
    """How jobs are taken from a queue and run."""

    queue_name: str = "default"
    """The queue to take jobs from."""
    group: str = "default"
    """The consumer group: workers of one group share the jobs."""
    consumer_id: str = field(default_factory=worker_name)
    """Its name in the group; must be unique."""
    batch: int = 64
    """At most this many entries per read."""
    block_ms: int = 5000
    """How long a read waits for jobs on the server."""
    claim_min_idle_ms: int = 30_000
    """How long a worker may be silent before its jobs are reclaimed."""
    concurrency: int = 100
    """Jobs that run at once."""
    max_attempts: int = 3
    """Total runs of a job, unless the job overrides it."""
    ack_batch: int = 256
    """At most this many acks per batch."""
    ack_idle_ms: int = 5
    """How long an ack may wait to be batched while another batch is on its way."""
    shutdown_deadline_secs: float = 30
    """How long running jobs may take to finish at a stop; then other workers may claim them."""
    max_payload_bytes: int = 1024 * 1024
    """A larger job, its name included, is buried as `oversize_payload`."""
    dlq_inflight: int = 32
    """At most this many burials per batch."""
    dlq_max_stream_len: int = 100_000
    """Approximate number of dead letters kept; the oldest are dropped."""
    retry: RetryConfig = field(default_factory=RetryConfig)
    """The wait before a failed job runs again."""
    backoff: BackoffSpec | None = None
    """The wait for jobs without their own; what it leaves out is as in `retry`."""
    retry_inflight: int = 64
    """At most this many retries per batch."""
    delayed_enabled: bool = True
    """Whether a promoter runs inside; retries need one somewhere."""
    delayed_poll_interval_ms: int = 100
    """As `PromoterConfig.poll_interval_ms`."""
    delayed_promote_batch: int = 256
    """As `PromoterConfig.promote_batch`."""
    delayed_max_stream_len: int = _STREAM_LEN
    """No effect, as `PromoterConfig.max_stream_len`."""
    delayed_lock_ttl_secs: int = _LOCK_TTL_SECS
    """As `PromoterConfig.lock_ttl_secs`."""
    events_enabled: bool = True
    """Whether events are emitted. Waiting for results is slower without them."""
    events_max_stream_len: int = _EVENTS_LEN
    """Approximate number of events kept."""
    run_scheduler: bool = True
    """Whether a scheduler for repeatable specs runs inside."""
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    """Its settings."""
    store_results: bool = False
    """Whether what handlers return is kept."""
    result_ttl_secs: int = 3600
    """How long results, and the reasons of dead jobs, are kept."""
    max_result_bytes: int = 16 * 1024 * 1024
    """Largest stored result in bytes; a handler that returns more fails for good."""
    time_limit_secs: TimeLimit = None
    """Longest a handler may run: for every job, or by a function of the job; None is no limit."""
    max_age_secs: float | None = None
    """A job that has not begun this long after it came onto the stream, or was due, expires; None is never."""
    dead_letter_expired: bool = False
    """Whether jobs that expired go to the dead letters."""
    run_plain_in: RunPlainIn = "thread"
    """Where handlers that are plain functions run: "thread" or "process"."""
    batch_size: int | None = None
    """The handler is given a list of up to so many jobs; None gives it one job. `concurrency` is at least as large."""
    batch_wait_ms: int = 100
    """How long the first job of a batch waits for others."""
    max_jobs: int | None = None
    """After this many runs of a handler it stops as if told to; None is never."""
    max_rss_mb: int | None = None
    """When its process takes more memory than this (resident, in MiB) it stops as if told to; None is never."""
    relay: bool = False
    """For a handler that only forwards jobs to another system: a run is an offer to it. So `max_attempts` counts, not
    the job's own number; and jobs are not quarantined after workers went silent with them."""
    packed: bool = False
    """Whether handlers are given payloads as bytes, as they are, and return results as `codec.Packed`."""
    log_job_ids: bool = False
    """Whether what a handler logs can carry its job's id: add a `JobIdFilter` to the logging handler."""
    metrics: MetricsSink = field(default_factory=noop_sink)
    """Receives a report of every run, retry and burial."""

    def __post_init__(self) -> None:
        check_queue_name(self.queue_name)
        check_queue_name(self.group, "ConsumerConfig.group")
        check_queue_name(self.consumer_id, "ConsumerConfig.consumer_id")
        _check_whole(self, 1, "batch", "block_ms", "claim_min_idle_ms", "concurrency", "max_attempts")
        _check_whole(self, 1, "max_payload_bytes", "dlq_max_stream_len", "events_max_stream_len", "result_ttl_secs")
        _check_whole(self, 1, "max_result_bytes")
        _check_whole(self, 1, "delayed_poll_interval_ms", "delayed_max_stream_len", "delayed_lock_ttl_secs")
        carried = ("ack_batch", "retry_inflight", "dlq_inflight", "delayed_promote_batch")
        _check_whole(self, 1, *carried, most=_MOST_PER_CALL)
        _check_whole(self, 0, "ack_idle_ms")
        _check_flags(self, "delayed_enabled", "events_enabled", "run_scheduler", "store_results")
        _check_flags(self, "relay", "packed", "log_job_ids", "dead_letter_expired")
        _check_kind(self, "retry", RetryConfig)
        if self.backoff is not None:
            _check_kind(self, "backoff", BackoffSpec)
            object.__setattr__(self, "backoff", self.backoff.with_own_maximum())
        _check_kind(self, "scheduler", SchedulerConfig)
        _check_kind(self, "metrics", MetricsSink)
        _check_seconds(self, "shutdown_deadline_secs")
        _check_choice(self, "run_plain_in", ("thread", "process"))
        if self.time_limit_secs is not None and not callable(self.time_limit_secs):
            _check_seconds(self, "time_limit_secs")
        if self.max_age_secs is not None:
            _check_seconds(self, "max_age_secs")
        optional = ("max_jobs", "max_rss_mb", "batch_size")
        _check_whole(self, 1, *(name for name in optional if getattr(self, name) is not None))
        _check_whole(self, 0, "batch_wait_ms")
        object.__setattr__(self, "concurrency", max(self.concurrency, self.batch_size or 1))
        _warn_if_given(self, "delayed_max_stream_len", _PRODUCERS_CAP)

    def promoter(self, **changes: Any) -> PromoterConfig:
        """The settings of the promoter that runs inside this consumer."""
        return PromoterConfig(
            poll_interval_ms=self.delayed_poll_interval_ms,
            promote_batch=self.delayed_promote_batch,
            lock_ttl_secs=self.delayed_lock_ttl_secs,
            events_enabled=self.events_enabled,
            events_max_stream_len=self.events_max_stream_len,
            metrics=self.metrics,
            **changes,
        )

    def scheduling(self) -> SchedulerConfig:
        """The settings of the scheduler that runs inside this consumer."""
        has_own_sink = self.scheduler.metrics is not noop_sink()
        return self.scheduler if has_own_sink else replace(self.scheduler, metrics=self.metrics)
