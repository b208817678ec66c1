"""Where one job is, and how far."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import delayed, results, stream
from chasqui_engine._redis.commands import events as events_commands
from chasqui_engine._redis.commands import group as group_commands
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stream import Entry
from chasqui_engine.codec import decode_delayed, decode_failure
from chasqui_engine.errors import DecodeError
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.job import Job, JobId
from chasqui_engine.payload_preview import glimpse_job

SEARCHED = 10_000
"""Entries of each kind that a search for one job looks at: it must not hold up the server."""


class JobState(StrEnum):
    """Where a job is."""

    WAITING = "waiting"
    """On the stream."""
    ACTIVE = "active"
    """In a worker's hands."""
    DELAYED = "delayed"
    """To run later, for the first time."""
    COMPLETED = "completed"
    """Its handler has returned."""
    FAILED = "failed"
    """Its last run failed; it waits for the next one."""
    DEAD = "dead"
    """In the dead letters, or it was."""
    UNKNOWN = "unknown"
    """Nothing is known of it (any more), or it was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """One job: where it is, and what happened to it so far."""

    id: JobId
    state: JobState
    name: str = ""
    attempt: int | None = None
    """Runs begun: 0 before the first; None when nobody remembers."""
    last_error: str | None = None
    """What the last run that failed said."""
    reason: str | None = None
    """Of a dead job: `retries_exhausted`, `unrecoverable` …"""
    payload: Any = None
    """What the job was added with, where it is still there."""
    created_at_ms: int | None = None
    run_at_ms: int | None = None
    """When it will run, if it is delayed or waits for a retry."""
    consumer: str | None = None
    """Who runs it, if it is active."""
    progress: Any = None
    """What its handler said last with `Job.update_progress`."""


async def find_job(
    link: Link,
    keys: QueueKeys,
    group: str,
    job_id: JobId,
    looked_at: int = SEARCHED,
    *,
    whole: bool = False,
    payload_chars: int | None = None,
) -> JobInfo:
    """Where a job is. What lies deeper than `looked_at` in a queue is found by what was told about it, if at all.

    With `whole`, the whole stream is gone through before a job is taken for unknown: seconds where millions wait.
    Of its payload, as much is decoded as makes `payload_chars`, or all.
    """
    most = payload_chars
    found = (
        await _at_an_end(link, keys, group, job_id, looked_at, most)
        or await _delayed(link, keys, job_id, looked_at, most)
        or await _dead(link, keys, job_id, looked_at, most)
        or await _ended(link, keys, job_id)
    )
    if found is None and whole:
        entry = await stream.find_entry(link, keys.stream, job_id)
        found = None if entry is None else await _on_the_stream(link, keys, group, job_id, entry, most)
    info = await _with_history(link, keys, found or JobInfo(id=job_id, state=JobState.UNKNOWN), looked_at)
    if found is None and info.state in _STATES_IN_DELAYED:
        # A cancel leaves no event behind: the set itself has the last word, if all of it can be looked at.
        look = await delayed.search_delayed(link, keys, job_id, at_most=looked_at)
        if look.found is None and look.all_seen:
            return replace(info, state=JobState.UNKNOWN)
    return info


async def _at_an_end(
    link: Link, keys: QueueKeys, group: str, job_id: JobId, looked_at: int, most: int | None
) -> JobInfo | None:
    # What runs is at the front; what was just added, at the end.
    for newest_first in (False, True):
        entry = await stream.find_entry(
            link, keys.stream, job_id, newest_first=newest_first, at_most=-(-looked_at // 2)
        )
        if entry is not None:
            return await _on_the_stream(link, keys, group, job_id, entry, most)
    return None


async def _on_the_stream(
    link: Link, keys: QueueKeys, group: str, job_id: JobId, entry: Entry, most: int | None
) -> JobInfo:
    info = await _describe(job_id, JobState.WAITING, entry, most)
    pending = await group_commands.find_pending(link, keys, group, entry.entry_id)
    if pending is None:
        return info
    consumer, _idle_ms, deliveries = pending
    # More than one may stand for a run that was counted before it began: then its `active` tells which run it is.
    attempt = (info.attempt or 0) + 1 if deliveries == 1 else None
    return replace(info, state=JobState.ACTIVE, consumer=consumer, attempt=attempt)


async def _delayed(link: Link, keys: QueueKeys, job_id: JobId, looked_at: int, most: int | None) -> JobInfo | None:
    found = await delayed.find_delayed(link, keys, job_id, at_most=looked_at)
    if found is None:
        return None
    member, run_at_ms = found
    job = await asyncio.to_thread(delayed_job, member, most)
    if job is None:
        return JobInfo(id=job_id, state=JobState.DELAYED, run_at_ms=run_at_ms)
    state = JobState.FAILED if job.attempt else JobState.DELAYED
    return replace(_of_job(job_id, state, job), run_at_ms=run_at_ms)


async def _dead(link: Link, keys: QueueKeys, job_id: JobId, looked_at: int, most: int | None) -> JobInfo | None:
    entry = await stream.find_entry(link, keys.dlq, job_id, newest_first=True, at_most=looked_at)
    [record] = await results.get_failures(link, keys, [job_id])
    if entry is None and record is None:
        return None
    info = JobInfo(id=job_id, state=JobState.DEAD)
    if entry is not None:
        info = await _describe(job_id, JobState.DEAD, entry, most)
        reason, detail = entry.fields.get(b"reason", b""), entry.fields.get(b"detail")
        error = None if detail is None else detail.decode(errors="replace")
        # The envelope is as it was before its last run.
        info = replace(info, reason=reason.decode(errors="replace"), last_error=error, attempt=None)
    if record is not None:
        # Others may have written anything there; the dead letter has its own reason.
        with contextlib.suppress(DecodeError):
            reason_told, error, attempt = decode_failure(record)
            info = replace(info, reason=reason_told, last_error=error, attempt=attempt)
    return info


async def _ended(link: Link, keys: QueueKeys, job_id: JobId) -> JobInfo | None:
    [result] = await results.get_results(link, keys, [job_id])
    return None if result is None else JobInfo(id=job_id, state=JobState.COMPLETED)


async def _with_history(link: Link, keys: QueueKeys, info: JobInfo, looked_at: int) -> JobInfo:
    """Adds what only the events know: the last error, the progress, and how a job ended that left nothing behind."""
    async for fields in events_commands.find_events_of(link, keys, info.id, at_most=looked_at):
        event = QueueEvent.of("", fields)
        info = _with_event(info, event)
        if event.name in ("failed", "delayed") or (info.attempt == 0 and info.state is not JobState.UNKNOWN):
            break
    return info


def _with_event(info: JobInfo, event: QueueEvent) -> JobInfo:
    """The same job, with what one more event, older than all before, says of it."""
    if info.state is JobState.UNKNOWN and event.name in _STATE_BY_EVENT:
        info = replace(info, state=_STATE_BY_EVENT[event.name])
    if not info.name:
        info = replace(info, name=event.job_name)
    attempt = event.fields.get("attempt")
    if info.attempt is None and isinstance(attempt, int) and event.name in ("active", "completed", "failed", "dlq"):
        info = replace(info, attempt=attempt)
    if event.name == "failed" and info.last_error is None:
        info = replace(info, last_error=str(event.fields.get("reason", "")))
    if event.name == "dlq" and info.state is JobState.DEAD and info.reason is None:
        info = replace(info, reason=str(event.fields.get("reason", "")))
    if event.name == "progress" and info.progress is None:
        info = replace(info, progress=event.fields.get("progress"))
    return info


# What is deeper in the queue than was looked at shows by its last event.
_STATE_BY_EVENT = {
    "waiting": JobState.WAITING,
    "active": JobState.ACTIVE,
    "progress": JobState.ACTIVE,
    "completed": JobState.COMPLETED,
    "failed": JobState.FAILED,
    "retry-scheduled": JobState.FAILED,
    "delayed": JobState.DELAYED,
    "dlq": JobState.DEAD,
}
_STATES_IN_DELAYED = (JobState.DELAYED, JobState.FAILED)


async def _describe(job_id: JobId, state: JobState, entry: Entry, payload_chars: int | None) -> JobInfo:
    name = entry.fields.get(b"n", b"").decode(errors="replace")
    try:
        # Decoding can take long, and nothing else would run on this loop meanwhile.
        job = await asyncio.to_thread(glimpse_job, entry.fields.get(b"d", b""), name, payload_chars)
    except DecodeError:
        return JobInfo(id=job_id, state=state, name=name)
    return _of_job(job_id, state, job)


def _of_job(job_id: JobId, state: JobState, job: Job) -> JobInfo:
    return JobInfo(
        id=job_id,
        state=state,
        name=job.name,
        attempt=job.attempt,
        payload=job.payload,
        created_at_ms=job.created_at_ms,
    )


def delayed_job(member: bytes, payload_chars: int | None = None) -> Job | None:
    """The job in a member of the delayed set, with so much of its payload; None when it cannot be read."""
    try:
        name, envelope = decode_delayed(member)
        return glimpse_job(envelope, name, payload_chars)
    except DecodeError:
        return None
