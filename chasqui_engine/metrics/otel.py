"""The engine's events as OpenTelemetry metrics. Needs the extra `otel`, and an SDK that the application sets up.

The names are those of `chasqui_engine.metrics.prometheus` in OpenTelemetry's manner; an exporter to Prometheus turns
them back into the same names, but for the lag, whose unit it writes out (`_milliseconds`).

    chasquimq.jobs.completed               counter    {job}    queue, name
    chasquimq.jobs.failed                  counter    {job}    queue, kind (error, panic), name
    chasquimq.handler.duration             histogram  s        queue, name
    chasquimq.retries.scheduled            counter    {retry}  queue, name
    chasquimq.retry.backoff                histogram  s        queue, name
    chasquimq.dlq.routed                   counter    {job}    queue, reason, name
    chasquimq.consumer.batch.size          histogram  {job}    queue
    chasquimq.consumer.reclaimed           counter    {job}    queue
    chasquimq.promoter.promoted            counter    {job}    queue
    chasquimq.delayed.zset.depth           gauge      {job}    queue
    chasquimq.promoter.oldest_pending_lag  gauge      ms       queue
    chasquimq.promoter.lock.acquired       counter    {change} queue
    chasquimq.promoter.lock.lost           counter    {change} queue
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_engine.metrics import events, labels
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.metrics import Histogram, Meter


class OtelSink(events.MetricsSink):
    """Records one queue's events with an OpenTelemetry meter; sinks for several queues can share one.

    Without a meter it takes that of the global provider, which may be set later. `max_names` limits the job names kept
    apart per sink. The histograms carry bounds that suit them; a view of the application overrides them.
    """

    def __init__(self, queue: str, meter: Meter | None = None, max_names: int = 100) -> None:
        self._names = labels.NameLabels(max_names)
        self._queue = {"queue": labels.clean_label(queue)}
        meter = _default_meter() if meter is None else meter
        self._make_job_instruments(meter)
        self._make_queue_instruments(meter)

    def promoter_tick(self, tick: events.PromoterTick) -> None:
        """Records the event, as do the other methods."""
        self._promoted.add(tick.promoted, self._queue)
        self._depth.set(tick.depth, self._queue)
        self._lag.set(tick.oldest_pending_lag_ms, self._queue)

    def promoter_lock_outcome(self, outcome: events.LockOutcome) -> None:
        self._locks[outcome].add(1, self._queue)

    def reader_batch(self, batch: events.ReaderBatch) -> None:
        self._batch_size.record(batch.size, self._queue)
        self._reclaimed.add(batch.reclaimed, self._queue)

    def job_outcome(self, outcome: events.JobOutcome) -> None:
        job = self._job(outcome.name)
        self._duration.record(outcome.handler_duration_us / 1_000_000, job)
        if outcome.kind is events.JobOutcomeKind.OK:
            self._completed.add(1, job)
        else:
            self._failed.add(1, {**job, "kind": labels.FAILURE_KINDS[outcome.kind]})

    def retry_scheduled(self, retry: events.RetryScheduled) -> None:
        job = self._job(retry.name)
        self._retries.add(1, job)
        self._backoff.record(retry.backoff_ms / 1_000, job)

    def dlq_routed(self, dlq: events.DlqRouted) -> None:
        self._buried.add(1, {**self._job(dlq.name), "reason": labels.clean_label(dlq.reason)})

    def _job(self, name: str) -> dict[str, str]:
        return {**self._queue, "name": self._names.label(name)}

    def _make_job_instruments(self, meter: Meter) -> None:
        counter = meter.create_counter
        self._completed = counter("chasquimq.jobs.completed", "{job}", "Handler runs that returned.")
        self._failed = counter("chasquimq.jobs.failed", "{job}", "Handler runs that failed.")
        self._duration = _histogram(
            meter, "chasquimq.handler.duration", "s", "How long handlers ran.", labels.DURATION_BUCKETS_S
        )
        self._retries = counter("chasquimq.retries.scheduled", "{retry}", "Failed jobs scheduled to run again.")
        self._backoff = _histogram(
            meter, "chasquimq.retry.backoff", "s", "Wait before a retry.", labels.BACKOFF_BUCKETS_S
        )
        self._buried = counter("chasquimq.dlq.routed", "{job}", "Entries moved to the dead letters.")

    def _make_queue_instruments(self, meter: Meter) -> None:
        counter, gauge = meter.create_counter, meter.create_gauge
        self._batch_size = _histogram(
            meter, "chasquimq.consumer.batch.size", "{job}", "Entries in one read of the stream.", labels.BATCH_BUCKETS
        )
        self._reclaimed = counter("chasquimq.consumer.reclaimed", "{job}", "Entries reclaimed from a silent consumer.")
        self._promoted = counter("chasquimq.promoter.promoted", "{job}", "Delayed jobs moved to the stream.")
        self._depth = gauge(
            "chasquimq.delayed.zset.depth", "{job}", "Delayed jobs left after the last pass of the promoter."
        )
        self._lag = gauge("chasquimq.promoter.oldest_pending_lag", "ms", "How overdue the oldest delayed job is.")
        acquired = counter(
            "chasquimq.promoter.lock.acquired", "{change}", "Times this promoter or scheduler became the leader."
        )
        lost = counter("chasquimq.promoter.lock.lost", "{change}", "Times another one became the leader.")
        self._locks = {events.LockOutcome.ACQUIRED: acquired, events.LockOutcome.HELD: lost}


def _default_meter() -> Meter:
    try:
        from opentelemetry.metrics import get_meter
    except ImportError as err:
        raise ConfigError("OtelSink needs opentelemetry-api: pip install 'chasqui[otel]'") from err
    return get_meter("chasqui")


def _histogram(meter: Meter, name: str, unit: str, text: str, bounds: Sequence[float]) -> Histogram:
    return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=bounds)
