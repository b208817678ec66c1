"""How long the jobs of a queue usually take, from its newest events."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from chasqui_engine import ProducerConfig, QueueEvent
from chasqui_engine.admin import QueueAdmin

_EVENTS = 1000
_JOBS = 50
"""Only this many of the last completed jobs are considered."""
_ENDED = ("completed", "failed", "dlq")


class JobDurations(NamedTuple):
    """The usual duration of a queue's jobs."""

    usual_s: float | None = None
    """The 75th percentile of the last completed jobs; None if none completed."""
    running_s: float = 0.0
    """How long the oldest running job has been running."""


async def read_durations(url: str, queue_name: str, job_name: str | None = None) -> JobDurations:
    """Reads the durations of all jobs of a queue, or of those with a given name."""
    async with await QueueAdmin.connect(url, ProducerConfig(queue_name=queue_name)) as admin:
        events = await admin.newest_events(_EVENTS)
    return durations_of([event for event in events if job_name is None or event.job_name == job_name], time.time())


def durations_of(newest_first: Sequence[QueueEvent], now_s: float) -> JobDurations:
    """The durations in a list of events; `now_s` in seconds since the epoch."""
    completed = (event.fields.get("duration_us") for event in newest_first if event.name == "completed")
    took_us = sorted([one for one in completed if isinstance(one, int)][:_JOBS])
    usual_s = took_us[(3 * len(took_us)) // 4 - (len(took_us) % 4 == 0)] / 1e6 if took_us else None
    return JobDurations(usual_s, max((now_s - at_s for at_s in _running_since_s(newest_first)), default=0.0))


def _running_since_s(newest_first: Iterable[QueueEvent]) -> Iterator[float]:
    seen: set[str | None] = set()
    for event in newest_first:
        if event.name == "active" and event.job_id not in seen:
            yield event.at_ms / 1000
        if event.name == "active" or event.name in _ENDED:
            seen.add(event.job_id)
