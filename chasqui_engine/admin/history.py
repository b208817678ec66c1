"""How jobs ended, looked up afterwards from the events that are still kept.

Searched from the newest event backwards, so that the number of events kept costs only those who ask for a job that no
event is about. Events are trimmed in time; a dead job is then still found among the dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin import lists
from chasqui_engine.admin.job_lookup import STATE_BY_EVENT, JobState
from chasqui_engine.events.event import QueueEvent, event_error
from chasqui_engine.values.job import JobId

_PAGE = 1000
_MOST_PAGES = 200
"""Twice the default number of events that a queue keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastOutcome:
    """The last event of a job."""

    state: JobState
    """`COMPLETED` or `DEAD`; `UNKNOWN` when it was removed; with any other state, the job has not ended."""
    at_ms: int
    """When, by the server's clock."""
    reason: str = ""
    """Of a dead job: `retries_exhausted`, `unrecoverable` …"""
    error: str | None = None
    """Of a dead job: the error of its last run."""
    attempt: int = 0
    """Of a dead job: how often it ran; 0 if unknown."""


class _Search:
    """Collects events, newest first, until the outcome of every requested job is known."""

    def __init__(self, job_ids: Iterable[JobId]) -> None:
        self.found: dict[JobId, PastOutcome] = {}
        self._missing = set(job_ids)
        self._unexplained: set[JobId] = set()

    @property
    def is_over(self) -> bool:
        return not self._missing and not self._unexplained

    def take(self, event: QueueEvent) -> None:
        job_id = event.job_id or ""
        if job_id in self._missing:
            self._missing.remove(job_id)
            self.found[job_id] = outcome = _outcome_of(event)
            if outcome.state is JobState.DEAD:
                self._unexplained.add(job_id)
        elif event.name == "failed" and job_id in self._unexplained:
            self._unexplained.remove(job_id)
            self.found[job_id] = replace(self.found[job_id], error=event_error(event.fields))


def _outcome_of(event: QueueEvent) -> PastOutcome:
    attempt = event.fields.get("attempt")
    return PastOutcome(
        state=STATE_BY_EVENT.get(event.name, JobState.UNKNOWN),
        at_ms=event.at_ms,
        reason=str(event.fields.get("reason", "")),
        attempt=attempt if isinstance(attempt, int) else 0,
    )


async def find_outcomes(
    link: Link, keys: QueueKeys, job_ids: Iterable[JobId], *, since_ms: int
) -> dict[JobId, PastOutcome]:
    """The last event of each of these jobs since a given time; the work is bounded."""
    search = _Search(job_ids)
    before: str | None = None
    for _ in range(_MOST_PAGES):
        page = await lists.list_newest_events(link, keys, after=str(since_ms), before=before, limit=_PAGE)
        for event in page:
            search.take(event)
        if search.is_over or len(page) < _PAGE:
            break
        before = page[-1].entry_id
    return search.found
