"""Dead letters: listing and replaying them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import dead_letters, locks, results
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import decode_id, decode_job, decode_traceback, encode_job, with_attempt
from chasqui_engine.codec.preview import glimpse_job
from chasqui_engine.values.durations import iso
from chasqui_engine.values.errors import DecodeError
from chasqui_engine.values.job import DlqEntry, DlqReason, Job
from chasqui_engine.values.packed import Packed
from chasqui_engine.values.stream_ids import ms_of

_log = logging.getLogger("chasqui.admin")

_PAGE = 250
_DIED_RUNNING = frozenset({"retries_exhausted", "unrecoverable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The outcome of a replay."""

    moved: int
    unreadable: int
    """Entries that stay, because they hold no readable job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadFilter:
    """A filter for dead letters; empty fields match everything."""

    reasons: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    job_ids: frozenset[str] = frozenset()
    error: str = ""
    """Part of the error's text, regardless of case."""
    before_ms: float = float("inf")
    after_ms: float = 0

    def takes(self, entry: DlqEntry) -> bool:
        """Whether this one matches."""
        return (
            (not self.reasons or entry.reason in self.reasons)
            and (not self.names or entry.name in self.names)
            and (not self.job_ids or decode_id(entry.payload) in self.job_ids)
            and (not self.error or self.error.casefold() in (entry.detail or "").casefold())
            and self.after_ms <= died_at_ms(entry) <= self.before_ms
        )


def died_at_ms(entry: DlqEntry) -> int:
    """When it was buried, by the server's clock."""
    return ms_of(entry.dlq_id)


def describe(entry: DlqEntry, payload_chars: int | None = None) -> dict[str, Any]:
    """A dead letter, decoded as far as possible, with `payload_chars` of its payload."""
    facts: dict[str, Any] = {
        "dlq_id": entry.dlq_id,
        "source_id": entry.source_id,
        "died_at": iso(died_at_ms(entry)),
        "reason": entry.reason,
        "code": DlqReason(entry.reason).code,
        "detail": entry.detail,
        "name": entry.name,
        "job_id": decode_id(entry.payload),
    }
    try:
        job = glimpse_job(entry.payload, entry.name, payload_chars)
    except DecodeError as err:
        return {**facts, "payload": None, "unreadable": str(err.args[0])}
    # The envelope is from before its last run.
    runs = job.attempt + (entry.reason in _DIED_RUNNING)
    return {**facts, "payload": job.payload, "attempt": runs, "created_at": iso(job.created_at_ms)}


async def peek(link: Link, keys: QueueKeys, limit: int) -> list[DlqEntry]:
    """Up to `limit` dead letters, oldest first."""
    found: list[DlqEntry] = []
    while len(found) < limit:
        after = found[-1].dlq_id if found else None
        page = await dead_letters.list_oldest(link, keys, count=limit - len(found), after=after)
        if not page:
            break
        found += page
    return found


async def replay(link: Link, keys: QueueKeys, limit: int) -> Replayed:
    """Moves up to `limit` dead letters back to the stream with a fresh attempt count, oldest first."""
    moved = unreadable = 0
    # Jobs that die again meanwhile are at the end, and excluded.
    until_ms = await locks.server_now_ms(link)
    after: str | None = None
    while moved < limit:
        page = await dead_letters.list_oldest(
            link, keys, count=min(_PAGE, limit - moved), after=after, until=str(until_ms)
        )
        if not page:
            break
        after = page[-1].dlq_id
        jobs = [job for job in map(_revive, page) if job is not None]
        unreadable += len(page) - len(jobs)
        if jobs:
            moved += await dead_letters.replay(link, keys, jobs)
    if unreadable:
        _log.warning("%d dead letters of queue %s are unreadable and stay", unreadable, keys.queue)
    return Replayed(moved=moved, unreadable=unreadable)


async def replay_these(link: Link, keys: QueueKeys, entries: Sequence[DlqEntry]) -> Replayed:
    """Moves these dead letters back to the stream with a fresh attempt count."""
    moved = 0
    jobs = [job for job in map(_revive, entries) if job is not None]
    for start in range(0, len(jobs), _PAGE):
        moved += await dead_letters.replay(link, keys, jobs[start : start + _PAGE])
    return Replayed(moved=moved, unreadable=len(entries) - len(jobs))


async def replay_edited(link: Link, keys: QueueKeys, entry: DlqEntry, payload: Any) -> bool:
    """Moves a dead letter back to the stream with another payload; False if it no longer exists."""
    job = decode_job(entry.payload, entry.name, unpack=Packed)
    envelope = encode_job(Job(id=job.id, payload=payload, created_at_ms=job.created_at_ms, retry=job.retry))
    return await dead_letters.replay(link, keys, [(entry.dlq_id, envelope, entry.name, job.id)]) == 1


async def read_tracebacks(link: Link, keys: QueueKeys, job_ids: Sequence[str | None]) -> list[str | None]:
    """The tracebacks of the last runs of these jobs."""
    records = await results.get_failures_of(link, keys, job_ids)
    return [None if record is None else decode_traceback(record) for record in records]


def _revive(entry: DlqEntry) -> tuple[str, bytes, str, str] | None:
    job_id = decode_id(entry.payload)
    if job_id is None:
        return None
    try:
        return entry.dlq_id, with_attempt(entry.payload, 0), entry.name, job_id
    except DecodeError:
        return None
