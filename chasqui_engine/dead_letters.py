"""The dead-letter queue: looking at what died, and giving it another life."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from chasqui_engine._redis import records
from chasqui_engine._redis.connection import Link
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.codec import decode_id, with_attempt
from chasqui_engine.errors import DecodeError
from chasqui_engine.job import DlqEntry

_log = logging.getLogger("chasqui")

_PAGE = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay did."""

    moved: int
    unreadable: int
    """Entries that stay, because there is no job in them to run."""


async def peek(link: Link, keys: QueueKeys, limit: int) -> list[DlqEntry]:
    """Up to `limit` dead letters, oldest first."""
    return await records.peek_dead(link, keys, count=limit) if limit else []


async def replay(link: Link, keys: QueueKeys, limit: int) -> Replayed:
    """Moves up to `limit` dead letters back to the stream with a fresh attempt count, oldest first."""
    moved = unreadable = 0
    # Jobs that die again while this goes on lie at the end, and are not for this replay.
    until_ms = await records.server_now_ms(link)
    after: str | None = None
    while moved < limit:
        page = await records.peek_dead(link, keys, count=min(_PAGE, limit - moved), after=after, until=str(until_ms))
        if not page:
            break
        after = page[-1].dlq_id
        jobs = [job for job in map(_revived, page) if job is not None]
        unreadable += len(page) - len(jobs)
        if jobs:
            moved += await records.replay_dead(link, keys, jobs)
    if unreadable:
        _log.warning("%d dead letters of %s cannot be read and stay where they are", unreadable, keys.queue)
    return Replayed(moved=moved, unreadable=unreadable)


async def replay_these(link: Link, keys: QueueKeys, entries: Sequence[DlqEntry]) -> Replayed:
    """Moves these dead letters back to the stream with a fresh attempt count."""
    moved = 0
    jobs = [job for job in map(_revived, entries) if job is not None]
    for start in range(0, len(jobs), _PAGE):
        moved += await records.replay_dead(link, keys, jobs[start : start + _PAGE])
    return Replayed(moved=moved, unreadable=len(entries) - len(jobs))


def _revived(entry: DlqEntry) -> tuple[str, bytes, str, str] | None:
    job_id = decode_id(entry.payload)
    if job_id is None:
        return None
    try:
        return entry.dlq_id, with_attempt(entry.payload, 0), entry.name, job_id
    except DecodeError:
        return None
