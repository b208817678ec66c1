"""The guard between the engine and a user's sink: an exception of the sink does not affect jobs.

A part of the engine guards its sink once, and asks `enabled` before it makes an event:

    metrics = guard(config.metrics)
    ...
    if metrics.enabled:
        metrics.job_outcome(JobOutcome(...))
"""

from __future__ import annotations

import inspect
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chasqui_engine.metrics.events import (
    DlqRouted,
    JobOutcome,
    LockOutcome,
    MetricsSink,
    NoopSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
)
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger("chasqui.metrics")

LOG_INTERVAL_S = 60.0
"""Pause between log lines about a method that keeps failing."""

_METHODS = (
    "promoter_tick",
    "promoter_lock_outcome",
    "reader_batch",
    "job_outcome",
    "retry_scheduled",
    "dlq_routed",
)


@dataclass(slots=True)
class _Failures:
    """What is known of one method's failures."""

    total: int = 0
    logged: int = 0  # how many of them are in the log
    logged_at_s: float = 0.0


class SafeSink(MetricsSink):
    """Passes events on to a sink and keeps its exceptions away from the caller. Made by `guard`."""

    __slots__ = ("_clock", "_failures", "_lock", "_sink", "enabled")

    def __init__(self, sink: MetricsSink, *, clock: Callable[[], float] = monotonic) -> None:
        _refuse_coroutines(sink)
        self.enabled = type(sink) not in (NoopSink, MetricsSink)
        """False for a sink that ignores everything: the caller can skip creating the event."""
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: dict[str, _Failures] = {}

    @property
    def failures(self) -> dict[str, int]:
        """How often each method raised; methods that never did are absent."""
        with self._lock:
            return {method: seen.total for method, seen in self._failures.items()}

    def promoter_tick(self, tick: PromoterTick) -> None:
        """Passes the event on, as do the other methods."""
        self._report("promoter_tick", tick)

    def promoter_lock_outcome(self, outcome: LockOutcome) -> None:
        self._report("promoter_lock_outcome", outcome)

    def reader_batch(self, batch: ReaderBatch) -> None:
        self._report("reader_batch", batch)

    def job_outcome(self, outcome: JobOutcome) -> None:
        self._report("job_outcome", outcome)

    def retry_scheduled(self, retry: RetryScheduled) -> None:
        self._report("retry_scheduled", retry)

    def dlq_routed(self, dlq: DlqRouted) -> None:
        self._report("dlq_routed", dlq)

    def _report(self, method: str, event: object) -> None:
        try:
            getattr(self._sink, method)(event)
        # Everything except what must reach the event loop: CancelledError, KeyboardInterrupt.
        except Exception as err:  # noqa: BLE001
            self._on_failure(method, err)

    def _on_failure(self, method: str, err: Exception) -> None:
        total, unlogged = self._count(method)
        what = f"{type(self._sink).__name__}.{method}"
        if total == 1:
            _log.warning("the metrics sink failed in %s; jobs are not affected", what, exc_info=err)
        elif unlogged:
            # The type only: an exception whose __str__ raises would lose the whole line.
            _log.warning("the metrics sink failed %d more time(s) in %s: %s", unlogged, what, type(err).__name__)

    def _count(self, method: str) -> tuple[int, int]:
        """Counts a failure; returns the total, and how many to log now (0 for none)."""
        with self._lock:
            seen = self._failures.setdefault(method, _Failures())
            seen.total += 1
            now = self._clock()
            if seen.total > 1 and now - seen.logged_at_s < LOG_INTERVAL_S:
                return seen.total, 0
            unlogged = seen.total - seen.logged
            seen.logged, seen.logged_at_s = seen.total, now
            return seen.total, unlogged


def guard(sink: MetricsSink, *, clock: Callable[[], float] = monotonic) -> SafeSink:
    """The sink with a guard around it. Guarding twice changes nothing."""
    return sink if isinstance(sink, SafeSink) else SafeSink(sink, clock=clock)


def _refuse_coroutines(sink: MetricsSink) -> None:
    """Refuses `async` methods: a coroutine that is never awaited would silently lose every event."""
    for method in _METHODS:
        if inspect.iscoroutinefunction(getattr(sink, method, None)):
            raise ConfigError(f"metrics: {type(sink).__name__}.{method} is 'async def'; use plain functions")
