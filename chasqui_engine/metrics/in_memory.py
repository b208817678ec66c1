"""A sink for tests that keeps the reported events, and sums over them."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

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
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Event = TypeVar("Event", PromoterTick, LockOutcome, ReaderBatch, JobOutcome, RetryScheduled, DlqRouted)

_KINDS: tuple[type, ...] = (PromoterTick, LockOutcome, ReaderBatch, JobOutcome, RetryScheduled, DlqRouted)


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationStats:
    """How long handlers ran, in microseconds."""

    count: int
    min_us: int
    max_us: int
    mean_us: float
    p50_us: int  # the percentiles are of the outcomes still kept, each a duration that was really seen
    p95_us: int
    p99_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """The sums at one moment, over all events, including those no longer kept."""

    outcomes: Mapping[JobOutcomeKind, int]  # runs by how they ended; a kind not seen is 0
    by_name: Mapping[str, Mapping[JobOutcomeKind, int]]  # the same for each job name
    handler_duration: DurationStats | None  # None when no handler ran
    retries: int  # retries scheduled
    dlq_by_reason: Mapping[str, int]  # entries buried, by reason
    batches: int  # reads that brought something
    entries_read: int  # entries in them
    reclaimed: int  # entries taken over from a silent consumer
    promoted: int  # delayed jobs moved to the stream
    delayed_depth: int | None  # delayed jobs left after the last pass; None before the first
    max_pending_lag_ms: int  # the worst lag of any pass
    locks: Mapping[LockOutcome, int]  # changes of the leader lock; an outcome not seen is 0
    dropped: int  # events no longer kept

    @property
    def completed(self) -> int:
        """Runs that returned."""
        return self.outcomes[JobOutcomeKind.OK]

    @property
    def failed(self) -> int:
        """Runs that did not."""
        return self.outcomes[JobOutcomeKind.ERR] + self.outcomes[JobOutcomeKind.PANIC]

    @property
    def buried(self) -> int:
        """Entries moved to the dead letters."""
        return sum(self.dlq_by_reason.values())


@dataclass(slots=True)
class _Sums:
    """The running sums behind a snapshot."""

    by_name: dict[str, Counter[JobOutcomeKind]] = field(default_factory=dict)
    outcomes: Counter[JobOutcomeKind] = field(default_factory=Counter)
    locks: Counter[LockOutcome] = field(default_factory=Counter)
    dlq_by_reason: Counter[str] = field(default_factory=Counter)
    duration_sum_us: int = 0
    duration_min_us: int | None = None
    duration_max_us: int = 0
    retries: int = 0
    batches: int = 0
    entries_read: int = 0
    reclaimed: int = 0
    promoted: int = 0
    delayed_depth: int | None = None
    max_pending_lag_ms: int = 0
    dropped: int = 0


class InMemorySink(MetricsSink):
    """Keeps the last `max_events` events of each kind, and sums over all of them.

    It can be shared between threads. In a test:

        sink = InMemorySink()
        ...  # run a worker with metrics=sink
        assert sink.snapshot().completed == 3
        assert [run.attempt for run in sink.events(JobOutcome)] == [1, 1, 2]
    """

    def __init__(self, *, max_events: int = 100_000) -> None:
        if max_events < 1:
            raise ConfigError(f"max_events must be at least 1, not {max_events}")
        self._max_events = max_events
        self._lock = threading.Lock()
        self._start()

    def events(self, kind: type[Event]) -> list[Event]:
        """The events of one kind in the order they came: `events(JobOutcome)`."""
        with self._lock:
            return list(self._events[kind])

    def snapshot(self) -> MetricsSnapshot:
        """The sums as they are now; later events do not change it."""
        with self._lock:
            sums = self._sums
            return MetricsSnapshot(
                outcomes=_by_kind(sums.outcomes),
                by_name={name: _by_kind(outcomes) for name, outcomes in sums.by_name.items()},
                handler_duration=self._duration_stats(),
                retries=sums.retries,
                dlq_by_reason=dict(sums.dlq_by_reason),
                batches=sums.batches,
                entries_read=sums.entries_read,
                reclaimed=sums.reclaimed,
                promoted=sums.promoted,
                delayed_depth=sums.delayed_depth,
                max_pending_lag_ms=sums.max_pending_lag_ms,
                locks={outcome: sums.locks[outcome] for outcome in LockOutcome},
                dropped=sums.dropped,
            )

    def reset(self) -> None:
        """Forget everything."""
        with self._lock:
            self._start()

    def promoter_tick(self, tick: PromoterTick) -> None:
        """Keeps the event, as do the other methods."""
        with self._lock:
            self._keep(tick)
            self._sums.promoted += tick.promoted
            self._sums.delayed_depth = tick.depth
            self._sums.max_pending_lag_ms = max(self._sums.max_pending_lag_ms, tick.oldest_pending_lag_ms)

    def promoter_lock_outcome(self, outcome: LockOutcome) -> None:
        with self._lock:
            self._keep(outcome)
            self._sums.locks[outcome] += 1

    def reader_batch(self, batch: ReaderBatch) -> None:
        with self._lock:
            self._keep(batch)
            self._sums.batches += 1
            self._sums.entries_read += batch.size
            self._sums.reclaimed += batch.reclaimed

    def job_outcome(self, outcome: JobOutcome) -> None:
        with self._lock:
            self._keep(outcome)
            sums, took_us = self._sums, outcome.handler_duration_us
            sums.outcomes[outcome.kind] += 1
            sums.by_name.setdefault(outcome.name, Counter())[outcome.kind] += 1
            sums.duration_sum_us += took_us
            sums.duration_max_us = max(sums.duration_max_us, took_us)
            sums.duration_min_us = took_us if sums.duration_min_us is None else min(sums.duration_min_us, took_us)

    def retry_scheduled(self, retry: RetryScheduled) -> None:
        with self._lock:
            self._keep(retry)
            self._sums.retries += 1

    def dlq_routed(self, dlq: DlqRouted) -> None:
        with self._lock:
            self._keep(dlq)
            self._sums.dlq_by_reason[dlq.reason] += 1

    def _start(self) -> None:
        self._events: dict[type, deque[Any]] = {kind: deque(maxlen=self._max_events) for kind in _KINDS}
        self._sums = _Sums()

    def _keep(self, event: object) -> None:
        kept = self._events[type(event)]
        if len(kept) == self._max_events:
            self._sums.dropped += 1
        kept.append(event)

    def _duration_stats(self) -> DurationStats | None:
        sums = self._sums
        if sums.duration_min_us is None:
            return None
        count = sums.outcomes.total()
        durations = sorted(run.handler_duration_us for run in self._events[JobOutcome])
        return DurationStats(
            count=count,
            min_us=sums.duration_min_us,
            max_us=sums.duration_max_us,
            mean_us=sums.duration_sum_us / count,
            p50_us=_percentile(durations, 50),
            p95_us=_percentile(durations, 95),
            p99_us=_percentile(durations, 99),
        )


def _by_kind(outcomes: Counter[JobOutcomeKind]) -> dict[JobOutcomeKind, int]:
    return {kind: outcomes[kind] for kind in JobOutcomeKind}


def _percentile(ascending: Sequence[int], percent: int) -> int:
    """The smallest value that at least `percent` of all values do not exceed."""
    return ascending[math.ceil(len(ascending) * percent / 100) - 1]
