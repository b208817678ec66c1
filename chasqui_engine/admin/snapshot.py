"""What a queue looks like now: its counts, its workers, and how fast it goes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import events as events_commands
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stats import QueueStats

EVENTS_FOR_RATE = 5_000
"""The newest events that a rate is told from, at most."""
_RATE_WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """How many jobs are where, all at one moment."""

    waiting: int
    """On the stream, in nobody's hands."""
    active: int
    """In the hands of workers."""
    delayed: int
    """Those that wait for a retry included."""
    dead: int
    """Dead letters."""
    repeatables: int
    """Repeatable specs."""
    paused: bool
    """Whether workers take no jobs."""
    oldest_waiting_ms: int
    """How long the first job that waits has been on the stream; 0 when none waits."""
    delayed_lag_ms: int
    """How overdue the first delayed job is; 0 when none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerInfo:
    """A worker of a group."""

    name: str
    active: int
    idle_ms: int
    """Since it was last heard of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """How fast a queue goes, told from its events: those of the last minute, or fewer where they are many."""

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


async def read_counts(link: Link, keys: QueueKeys, group: str) -> QueueCounts:
    """How many jobs are where."""
    return _counts(await stats.read_stats(link, keys, group))


def _counts(standing: QueueStats) -> QueueCounts:
    now, oldest, first = standing.now_ms, standing.oldest_waiting_ms, standing.first_due_ms
    # An entry that was deleted under a worker's hands is pending still.
    waiting = max(0, standing.entries - standing.pending)
    return QueueCounts(
        waiting=waiting,
        active=min(standing.pending, standing.entries),
        delayed=standing.delayed,
        dead=standing.dead,
        repeatables=standing.repeatables,
        paused=standing.paused,
        oldest_waiting_ms=max(0, now - oldest) if oldest is not None and waiting else 0,
        delayed_lag_ms=max(0, now - first) if first is not None else 0,
    )


async def take_snapshot(link: Link, keys: QueueKeys, group: str, *, events: int = EVENTS_FOR_RATE) -> QueueSnapshot:
    """Everything about a queue that fits on a screen; its rates are told from up to so many events."""
    standing = await stats.read_stats(link, keys, group)
    consumers = await stats.list_consumers(link, keys, group) or []
    since_ms = standing.now_ms - _RATE_WINDOW_MS
    recent = await events_commands.list_recent(link, keys, since_ms, at_most=events)
    return QueueSnapshot(
        name=keys.queue,
        group=group,
        counts=_counts(standing),
        consumers=tuple(ConsumerInfo(name=one.name, active=one.pending, idle_ms=one.idle_ms) for one in consumers),
        throughput=_throughput(recent, standing.now_ms, cut_at=events),
    )


def _throughput(events: list[tuple[int, str]], now_ms: int, *, cut_at: int) -> Throughput:
    # Cut short, they tell of less than the window.
    window_ms = max(1, now_ms - events[-1][0]) if events and len(events) >= cut_at else _RATE_WINDOW_MS
    told = Counter(kind for _, kind in events)
    seconds = window_ms / 1000
    return Throughput(
        window_ms=window_ms,
        completed_per_s=told["completed"] / seconds,
        failed_per_s=told["failed"] / seconds,
        dead_per_s=told["dlq"] / seconds,
    )
