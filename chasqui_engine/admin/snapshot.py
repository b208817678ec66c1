"""Snapshots of a queue: its counts, its workers, and its throughput."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import events as events_commands
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.admission import limits
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stats import QueueStats
from chasqui_engine.admin.workers import ConsumerInfo, list_workers
from chasqui_engine.values.limits import UNLIMITED, QueueLimits

EVENTS_FOR_RATE = 5_000
"""The most events that a rate is computed from, the newest."""
_RATE_WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """The number of jobs in each state, at one moment."""

    waiting: int
    """On the stream, not in flight."""
    active: int
    """In flight."""
    delayed: int
    """Delayed jobs, those between two retries included."""
    prioritized: int = 0
    """Jobs that wait beside the stream for their priority's turn."""
    dead: int
    """Dead letters."""
    repeatables: int
    """Repeatable specs."""
    paused: bool
    """Whether workers take no jobs."""
    oldest_waiting_ms: int
    """How long the oldest waiting job has been on the stream; 0 without one."""
    delayed_lag_ms: int
    """How overdue the first delayed job is; 0 when none is."""
    repeatable_lag_ms: int
    """How overdue the first repeatable is; 0 when none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Rates, from the events of the last minute, or of less where there are too many."""

    window_ms: int
    completed_per_s: float
    failed_per_s: float
    dead_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSnapshot:
    """A queue at one moment."""

    name: str
    group: str
    counts: QueueCounts
    consumers: tuple[ConsumerInfo, ...]
    throughput: Throughput
    limits: QueueLimits = UNLIMITED

    @property
    def workers(self) -> int:
        """Workers that beat, or were seen within the last minute."""
        return sum(one.is_there(paused=self.counts.paused) for one in self.consumers)

    @property
    def running(self) -> int:
        """Jobs whose handlers run, as the workers said last."""
        return min(self.counts.active, sum(one.runs for one in self.consumers))

    @property
    def buffered(self) -> int:
        """Jobs that workers have taken and not begun, and those of workers that died."""
        return self.counts.active - self.running

    @property
    def lacks_workers(self) -> bool:
        """Whether jobs wait, the queue is not paused, and no worker is there to run them."""
        return bool(self.counts.waiting or self.counts.prioritized) and not self.counts.paused and not self.workers


async def read_counts(link: Link, keys: QueueKeys, group: str) -> QueueCounts:
    """The number of jobs in each state."""
    return _counts(await stats.read_stats(link, keys, group))


def _counts(found: QueueStats) -> QueueCounts:
    now, oldest = found.now_ms, found.oldest_waiting_ms
    # An entry that was deleted while in flight is still pending.
    waiting = max(0, found.entries - found.pending)
    return QueueCounts(
        waiting=waiting,
        active=min(found.pending, found.entries),
        delayed=found.delayed - found.prioritized,
        prioritized=found.prioritized,
        dead=found.dead,
        repeatables=found.repeatables,
        paused=found.paused,
        oldest_waiting_ms=max(0, now - oldest) if oldest is not None and waiting else 0,
        delayed_lag_ms=_lag_ms(now, found.first_due_ms),
        repeatable_lag_ms=_lag_ms(now, found.first_fire_ms),
    )


def _lag_ms(now_ms: int, due_ms: int | None) -> int:
    return max(0, now_ms - due_ms) if due_ms is not None else 0


async def take_snapshot(link: Link, keys: QueueKeys, group: str, *, events: int = EVENTS_FOR_RATE) -> QueueSnapshot:
    """A snapshot; its rates are computed from up to `events` events."""
    found = await stats.read_stats(link, keys, group)
    consumers = await list_workers(link, keys, group) or []
    since_ms = found.now_ms - _RATE_WINDOW_MS
    recent = await events_commands.list_recent(link, keys, since_ms, at_most=events)
    return QueueSnapshot(
        name=keys.queue,
        group=group,
        counts=_counts(found),
        consumers=tuple(consumers),
        limits=await limits.get_limits(link, keys),
        throughput=_throughput(recent, found.now_ms, cut_at=events),
    )


def _throughput(events: list[tuple[int, str]], now_ms: int, *, cut_at: int) -> Throughput:
    # A cut list covers less than the window.
    window_ms = max(1, now_ms - events[-1][0]) if events and len(events) >= cut_at else _RATE_WINDOW_MS
    kinds = Counter(kind for _, kind in events)
    seconds = window_ms / 1000
    return Throughput(
        window_ms=window_ms,
        completed_per_s=kinds["completed"] / seconds,
        failed_per_s=kinds["failed"] / seconds,
        dead_per_s=kinds["dlq"] / seconds,
    )
