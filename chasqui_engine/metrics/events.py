"""What the engine reports about itself: one frozen value per kind of event, and the sink that receives them.

The counts are of runs of a handler, not of jobs: a job that runs three times makes three `JobOutcome`s. An entry that
never reaches a handler (malformed, too large, not decodable, out of attempts on arrival) makes a `DlqRouted` only.

The sinks that ship with the engine, and the guard through which it calls them, are in `chasqui_engine.metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class PromoterTick:
    """One pass of the promoter over the delayed jobs, while it was the leader."""

    promoted: int
    """Jobs moved to the stream in this pass; 0 when nothing was due."""
    depth: int
    """Delayed jobs left after it."""
    oldest_pending_lag_ms: int
    """How overdue the oldest job left is; 0 when none is overdue."""


class LockOutcome(StrEnum):
    """Whether a promoter, or a scheduler, holds its leader lock. Reported on changes, not at every try."""

    ACQUIRED = "acquired"
    """This promoter is the leader."""
    HELD = "held"
    """Another one is."""

    @classmethod
    def of(cls, leads: bool) -> LockOutcome:
        """The outcome of a try for the lock."""
        return cls.ACQUIRED if leads else cls.HELD


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderBatch:
    """A read of the stream that returned entries. Empty reads are not reported."""

    size: int
    """Entries read, including those that will be buried."""
    reclaimed: int
    """How many of them were reclaimed from a silent consumer."""


class JobOutcomeKind(StrEnum):
    """How a handler's run ended."""

    OK = "ok"
    """It returned."""
    ERR = "err"
    """It failed."""
    PANIC = "panic"
    """It ended abnormally."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """One run of a handler."""

    kind: JobOutcomeKind
    attempt: int
    """Which run of this job it was: 1 is the first."""
    handler_duration_us: int
    """Microseconds, since most handlers take less than one millisecond."""
    name: str = ""
    """The job's name; empty when it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled:
    """A failed job was scheduled again. Reported once it is written, and not if another consumer was first."""

    attempt: int
    """The number of the next run: 2 after the first failure."""
    backoff_ms: int
    """How long the job waits for the next run."""
    name: str = ""
    """The job's name; empty when it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DlqRouted:
    """An entry was moved to the dead letters. Reported once it is written."""

    reason: str
    """As on the wire: retries_exhausted, decode_failed, malformed, oversize_payload, unrecoverable."""
    attempt: int
    """The number of the last run; 0 if no handler ran."""
    name: str = ""
    """The job's name; empty when it has none, or it could not be read."""


class MetricsSink:
    """Receives the engine's events. Inherit and override what is of interest; the rest stays a no-op.

    The methods are called on the event loop, between two jobs: they must be plain functions (not `async def`), quick,
    and never wait for a network or a disk. What they raise is logged and never reaches a job. One sink may be given to
    several consumers, in several threads.
    """

    __slots__ = ()

    def promoter_tick(self, tick: PromoterTick) -> None:
        """The promoter made a pass."""

    def promoter_lock_outcome(self, outcome: LockOutcome) -> None:
        """The promoter became the leader, or another one did."""

    def reader_batch(self, batch: ReaderBatch) -> None:
        """Entries were read from the stream."""

    def job_outcome(self, outcome: JobOutcome) -> None:
        """A handler ran."""

    def retry_scheduled(self, retry: RetryScheduled) -> None:
        """A failed job will run again."""

    def dlq_routed(self, dlq: DlqRouted) -> None:
        """An entry went to the dead letters."""


class NoopSink(MetricsSink):
    """Drops every event; what a config holds when nothing else is given."""

    __slots__ = ()


_NOOP = NoopSink()


def noop_sink() -> NoopSink:
    """The one shared `NoopSink`."""
    return _NOOP
