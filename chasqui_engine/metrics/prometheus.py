"""The engine's events as Prometheus metrics, under the names and labels of ChasquiMQ's own exporter.

Needs the extra `prometheus`. One dashboard serves workers of both engines:

    chasquimq_jobs_completed_total            counter    queue, name
    chasquimq_jobs_failed_total               counter    queue, kind (error, panic), name
    chasquimq_handler_duration_seconds        histogram  queue, name
    chasquimq_retries_scheduled_total         counter    queue, name
    chasquimq_retry_backoff_seconds           histogram  queue, name
    chasquimq_dlq_routed_total                counter    queue, reason, name
    chasquimq_consumer_batch_size             histogram  queue
    chasquimq_consumer_reclaimed_total        counter    queue
    chasquimq_promoter_promoted_total         counter    queue
    chasquimq_delayed_zset_depth              gauge      queue
    chasquimq_promoter_oldest_pending_lag_ms  gauge      queue
    chasquimq_promoter_lock_acquired_total    counter    queue
    chasquimq_promoter_lock_lost_total        counter    queue
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from chasqui_engine.metrics.events import (
    DlqRouted,
    JobOutcome,
    JobOutcomeKind,
    LockOutcome,
    MetricsSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
)
from chasqui_engine.metrics.labels import (
    BACKOFF_BUCKETS_S,
    BATCH_BUCKETS,
    DURATION_BUCKETS_S,
    FAILURE_KINDS,
    NameLabels,
    clean_label,
)
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
    from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instruments:
    """The metrics of one registry, shared by the sinks of all its queues."""

    completed: Counter
    failed: Counter
    duration: Histogram
    retries: Counter
    backoff: Histogram
    buried: Counter
    batch_size: Histogram
    reclaimed: Counter
    promoted: Counter
    depth: Gauge
    lag: Gauge
    lock_acquired: Counter
    lock_lost: Counter
    buckets: tuple[float, ...]  # of `duration`


class PrometheusSink(MetricsSink):
    """Counts one queue's events in a Prometheus registry; sinks for several queues can share one.

    Serving the registry is the application's business (`prometheus_client.start_http_server` is the short way).
    `max_names` limits the job names kept apart per sink; `buckets` are the bounds of the handler durations in seconds,
    the same for all sinks of a registry.
    """

    def __init__(
        self,
        queue: str,
        registry: CollectorRegistry | None = None,
        max_names: int = 100,
        buckets: Sequence[float] = DURATION_BUCKETS_S,
    ) -> None:
        self._names = NameLabels(max_names)
        self._queue = clean_label(queue)
        self._metrics = metrics = _instruments(registry, _check_buckets(buckets))
        # These have one series per queue; kept here, they need no look-up per event.
        self._promoted = metrics.promoted.labels(self._queue)
        self._depth = metrics.depth.labels(self._queue)
        self._lag = metrics.lag.labels(self._queue)
        self._batch_size = metrics.batch_size.labels(self._queue)
        self._reclaimed = metrics.reclaimed.labels(self._queue)
        self._locks = {
            LockOutcome.ACQUIRED: metrics.lock_acquired.labels(self._queue),
            LockOutcome.HELD: metrics.lock_lost.labels(self._queue),
        }

    def promoter_tick(self, tick: PromoterTick) -> None:
        """Counts the event, as do the other methods."""
        self._promoted.inc(tick.promoted)
        self._depth.set(tick.depth)
        self._lag.set(tick.oldest_pending_lag_ms)

    def promoter_lock_outcome(self, outcome: LockOutcome) -> None:
        self._locks[outcome].inc()

    def reader_batch(self, batch: ReaderBatch) -> None:
        self._batch_size.observe(batch.size)
        self._reclaimed.inc(batch.reclaimed)

    def job_outcome(self, outcome: JobOutcome) -> None:
        name = self._names.label(outcome.name)
        self._metrics.duration.labels(self._queue, name).observe(outcome.handler_duration_us / 1_000_000)
        if outcome.kind is JobOutcomeKind.OK:
            self._metrics.completed.labels(self._queue, name).inc()
        else:
            self._metrics.failed.labels(self._queue, FAILURE_KINDS[outcome.kind], name).inc()

    def retry_scheduled(self, retry: RetryScheduled) -> None:
        name = self._names.label(retry.name)
        self._metrics.retries.labels(self._queue, name).inc()
        self._metrics.backoff.labels(self._queue, name).observe(retry.backoff_ms / 1_000)

    def dlq_routed(self, dlq: DlqRouted) -> None:
        name = self._names.label(dlq.name)
        self._metrics.buried.labels(self._queue, clean_label(dlq.reason), name).inc()


_by_registry: WeakKeyDictionary[CollectorRegistry, _Instruments] = WeakKeyDictionary()
_by_registry_lock = threading.Lock()


def _instruments(registry: CollectorRegistry | None, buckets: tuple[float, ...]) -> _Instruments:
    """The registry's metrics, made at first use; no registry means the client library's own."""
    try:
        from prometheus_client import REGISTRY
    except ImportError as err:
        raise ConfigError("PrometheusSink needs prometheus_client: pip install 'chasqui[prometheus]'") from err
    registry = REGISTRY if registry is None else registry
    with _by_registry_lock:
        made = _by_registry.get(registry)
        if made is None:
            made = _make(buckets)
            _register(registry, made)
            _by_registry[registry] = made
    if made.buckets != buckets:
        raise ConfigError(f"buckets: the registry already has a handler histogram with {made.buckets}, not {buckets}")
    return made


def _make(buckets: tuple[float, ...]) -> _Instruments:
    from prometheus_client import Counter, Gauge, Histogram

    def counter(name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, ("queue", *labels), registry=None)

    def histogram(name: str, text: str, bounds: Sequence[float], *labels: str) -> Histogram:
        return Histogram(name, text, ("queue", *labels), registry=None, buckets=bounds)

    def gauge(name: str, text: str) -> Gauge:
        # Several processes may serve one page: only the leader's last value counts, not one value per process.
        return Gauge(name, text, ("queue",), registry=None, multiprocess_mode="livemostrecent")

    return _Instruments(
        completed=counter("chasquimq_jobs_completed_total", "Handler runs that returned.", "name"),
        failed=counter("chasquimq_jobs_failed_total", "Handler runs that failed.", "kind", "name"),
        duration=histogram("chasquimq_handler_duration_seconds", "How long handlers ran.", buckets, "name"),
        retries=counter("chasquimq_retries_scheduled_total", "Failed jobs scheduled to run again.", "name"),
        backoff=histogram("chasquimq_retry_backoff_seconds", "Wait before a retry.", BACKOFF_BUCKETS_S, "name"),
        buried=counter("chasquimq_dlq_routed_total", "Entries moved to the dead letters.", "reason", "name"),
        batch_size=histogram("chasquimq_consumer_batch_size", "Entries in one read of the stream.", BATCH_BUCKETS),
        reclaimed=counter("chasquimq_consumer_reclaimed_total", "Entries reclaimed from a silent consumer."),
        promoted=counter("chasquimq_promoter_promoted_total", "Delayed jobs moved to the stream."),
        depth=gauge("chasquimq_delayed_zset_depth", "Delayed jobs left after the last pass of the promoter."),
        lag=gauge("chasquimq_promoter_oldest_pending_lag_ms", "How overdue the oldest delayed job is."),
        lock_acquired=counter(
            "chasquimq_promoter_lock_acquired_total", "Times this promoter or scheduler became the leader."
        ),
        lock_lost=counter("chasquimq_promoter_lock_lost_total", "Times another one became the leader."),
        buckets=buckets,
    )


def _register(registry: CollectorRegistry, made: _Instruments) -> None:
    """All of them or none: half a set would make the next try fail for the wrong reason."""
    done: list[Collector] = []
    try:
        for metric in _collectors(made):
            registry.register(metric)
            done.append(metric)
    except ValueError as err:
        for metric in done:
            registry.unregister(metric)
        raise ConfigError(f"the registry has a metric of that name already: {err}") from err


def _collectors(made: _Instruments) -> Iterable[Collector]:
    values = (getattr(made, name) for name in made.__slots__)
    return [value for value in values if not isinstance(value, tuple)]


def _check_buckets(buckets: Sequence[float]) -> tuple[float, ...]:
    """The bounds without a closing infinity, which the client adds itself."""
    bounds = tuple(float(bound) for bound in buckets)
    if bounds and bounds[-1] == math.inf:
        bounds = bounds[:-1]
    ascending = all(low < high for low, high in pairwise(bounds))
    if not bounds or not ascending or not all(map(math.isfinite, bounds)):
        raise ConfigError(f"buckets must be one or more ascending finite numbers, not {buckets!r}")
    return bounds
