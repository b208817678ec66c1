"""The last run of each of some jobs, as the events tell: since when it runs, how far it is, or why it failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import events as events_commands
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.job import JobId

_MOST_PAGES = 5
_LOOK_S = 0.3
_WITHIN_A_RUN = frozenset({"progress", "retry-scheduled"})
"""Any other event begins a run, ends one, or is from before it."""


@dataclass(slots=True)
class LastRun:
    """The last run of a job."""

    started_at_ms: int | None = None
    """When it began, while it runs; None when it has not begun, or nothing is known."""
    attempt: int | None = None
    progress: Any = None
    """The last value of `Job.update_progress`."""
    error: str | None = None
    """Why it failed, if it did."""
    error_type: str | None = None
    """The class of that error."""


async def find_last_runs(link: Link, keys: QueueKeys, job_ids: Iterable[JobId]) -> dict[JobId, LastRun]:
    """The last run of each job of which one of the newest events is; what it costs is bounded."""
    missing, found = set(job_ids), dict[JobId, LastRun]()
    start, began = "+", monotonic()
    for _ in range(_MOST_PAGES):
        if not missing or monotonic() - began > _LOOK_S:
            break
        last, page = await events_commands.find_of_many(link, keys, missing, start=start)
        for fields in page:
            event = QueueEvent.of("", fields)
            job_id = event.job_id or ""
            if job_id in missing:
                _add(found.setdefault(job_id, LastRun()), event)
                if event.name not in _WITHIN_A_RUN:
                    missing.remove(job_id)
        if not last:
            break
        start = f"({last}"
    return found


def _add(run: LastRun, event: QueueEvent) -> None:
    """Adds an event, which is older than those before."""
    attempt = event.fields.get("attempt")
    if event.name == "progress" and run.progress is None:
        run.progress = event.fields.get("progress")
    elif event.name == "active":
        at_ms = event.fields.get("ts")
        run.started_at_ms = at_ms if isinstance(at_ms, int) else None
        run.attempt = attempt if isinstance(attempt, int) else None
    elif event.name == "failed":
        run.progress = None
        run.error = str(event.fields.get("reason", ""))
        run.error_type = event.fields.get("error_type")
        run.attempt = attempt if isinstance(attempt, int) else None
