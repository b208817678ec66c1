"""What a queue still tells of jobs that ended before anybody waited for them.

Looked for from the newest event backwards, so that how long the events are kept costs those the most who wait for a job
of which nothing was told. Events are trimmed in time; a dead job is then still found among the dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from chasqui_engine import JobState, Producer, QueueEvent
from chasqui_provider.waiting.outcome import Outcome, dead, expired

_PAGE = 1000
_MOST_PAGES = 200
"""Twice what a queue keeps unless it is told otherwise."""


@dataclass(slots=True)
class KnownOutcome:
    """The last event of a job, and the last error before it, if the job is dead."""

    event: QueueEvent
    error: str | None = None

    @property
    def at_ms(self) -> int:
        """When, by the server's clock."""
        return int(self.event.entry_id.partition("-")[0])

    @property
    def ending(self) -> Outcome | None:
        """How the job ended without leaving a result; None if it goes on."""
        job_id, fields = self.event.job_id or "", self.event.fields
        if self.event.name == "completed":
            return expired(job_id)
        if self.event.name == "dlq":
            attempt = fields.get("attempt")
            runs = attempt if isinstance(attempt, int) else 0
            return dead(job_id, str(fields.get("reason", "")), self.error, runs)
        return None


class _Search:
    """Takes events, the newest first, until everything asked for is known."""

    def __init__(self, job_ids: Iterable[str]) -> None:
        self.told: dict[str, KnownOutcome] = {}
        self._untold = set(job_ids)
        self._unexplained: set[str] = set()

    @property
    def is_over(self) -> bool:
        return not self._untold and not self._unexplained

    def take(self, event: QueueEvent) -> None:
        job_id = event.job_id or ""
        if job_id in self._untold:
            self._untold.remove(job_id)
            self.told[job_id] = KnownOutcome(event)
            if event.name == "dlq":
                self._unexplained.add(job_id)
        elif event.name == "failed" and job_id in self._unexplained:
            self._unexplained.remove(job_id)
            self.told[job_id].error = str(event.fields.get("reason", ""))


async def find_outcomes(producer: Producer, job_ids: Iterable[str], *, since_ms: int) -> dict[str, KnownOutcome]:
    """What the events since a time say last of each of these jobs; the work is bounded."""
    search = _Search(job_ids)
    before: str | None = None
    for _ in range(_MOST_PAGES):
        page = await producer.newest_events(_PAGE, after=str(since_ms), before=before)
        for event in page:
            search.take(event)
        if search.is_over or len(page) < _PAGE:
            break
        before = page[-1].entry_id
    return search.told


async def find_dead(producer: Producer, job_id: str, *, since_ms: int) -> Outcome | None:
    """How a job died that lies in the dead letters; the server looks at a bounded number of them."""
    info = await producer.get_job(job_id)
    if info.state is not JobState.DEAD or (info.created_at_ms or 0) < since_ms:
        return None
    return dead(job_id, info.reason or "", info.last_error, info.attempt or 0)
