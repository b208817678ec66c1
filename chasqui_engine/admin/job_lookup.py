"""One job: its state, and what happened to it."""

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
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stream import Entry
from chasqui_engine.codec.envelope import decode_delayed, decode_failure, decode_traceback
from chasqui_engine.codec.preview import glimpse_job
from chasqui_engine.events.event import QueueEvent, event_error
from chasqui_engine.values.errors import DecodeError
from chasqui_engine.values.job import Job, JobId

SEARCHED = 10_000
"""Entries of each kind that a search for one job looks at: it must not hold up the server."""


class JobState(StrEnum):
    """Where a job is."""

    WAITING = "waiting"
    """On the stream."""
    ACTIVE = "active"
    """In flight: a worker has it."""
    DELAYED = "delayed"
    """To run later, for the first time."""
    PRIORITIZED = "prioritized"
    """Beside the stream, for its priority's turn."""
    COMPLETED = "completed"
    """Its handler has returned."""
    FAILED = "failed"
    """Its last run failed; it waits for the next one."""
    DEAD = "dead"
    """In the dead letters, or it was there."""
    ABORTED = "aborted"
    """Stopped, or taken away before it ran, by `abort`."""
    EXPIRED = "expired"
    """It had not begun in time, and left no dead letter."""
    UNKNOWN = "unknown"
    """Unknown to the queue, forgotten, or cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """One job: its state, and what happened to it so far."""

    id: JobId
    state: JobState
    name: str = ""
    attempt: int | None = None
    """Runs begun: 0 before the first; None when it is unknown."""
    max_attempts: int | None = None
    """Its own limit of runs; None leaves it to the worker."""
    last_error: str | None = None
    """The error of the last run that failed: its class and its text."""
    traceback: str | None = None
    """Of a dead job: the traceback of its last run, cut to 4,096 bytes, as long as a result would be kept."""
    reason: str | None = None
    """Of a dead job: `retries_exhausted`, `unrecoverable` …"""
    dlq_id: str | None = None
    """Of a dead job: the id of its dead letter, as long as that is kept."""
    payload: Any = None
    """The job's data, if it still exists."""
    priority: int = 0
    """What it was added with, if it has not ended; 0 is the first."""
    created_at_ms: int | None = None
    run_at_ms: int | None = None
    """When it will run, if it is delayed or waits for a retry."""
    consumer: str | None = None
    """The worker that runs it, or that ran it last."""
    progress: Any = None
    """The last value of `Job.update_progress`."""
    started_at_ms: int | None = None
    """When its last run began."""
    ended_at_ms: int | None = None
    """When its last run ended; None while it runs."""
    duration_ms: float | None = None
    """How long its handler took in the last run that ended."""


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
    """Finds a job. A job deeper than `looked_at` in a queue is found by its events, if at all.

    With `whole`, the whole stream is searched before a job counts as unknown: seconds where millions wait.
    Of its payload, `payload_chars` characters are decoded, or all.
    """
    most = payload_chars
    found = (
        await _find_on_stream(link, keys, group, job_id, looked_at, most)
        or await _find_delayed(link, keys, job_id, looked_at, most)
        or await _find_dead(link, keys, job_id, looked_at, most)
        or await _find_ended(link, keys, job_id)
    )
    if found is None and whole:
        entry = await stream.find_entry(link, keys.stream, job_id)
        found = None if entry is None else await _describe_on_stream(link, keys, group, job_id, entry, most)
    info = await _with_history(link, keys, found or JobInfo(id=job_id, state=JobState.UNKNOWN), looked_at)
    if found is None and info.state in _STATES_IN_DELAYED:
        # A cancel leaves no event behind: the set itself decides, if all of it can be searched.
        look = await delayed.search_delayed(link, keys, job_id, at_most=looked_at)
        if look.found is None and look.all_seen:
            return replace(info, state=JobState.UNKNOWN)
    return info


async def _find_on_stream(
    link: Link, keys: QueueKeys, group: str, job_id: JobId, looked_at: int, most: int | None
) -> JobInfo | None:
    # Active jobs are at the front; those that were just added, at the end.
    for newest_first in (False, True):
        entry = await stream.find_entry(
            link, keys.stream, job_id, newest_first=newest_first, at_most=-(-looked_at // 2)
        )
        if entry is not None:
            return await _describe_on_stream(link, keys, group, job_id, entry, most)
    return None


async def _describe_on_stream(
    link: Link, keys: QueueKeys, group: str, job_id: JobId, entry: Entry, most: int | None
) -> JobInfo:
    info = await _describe(job_id, JobState.WAITING, entry, most)
    pending = await group_commands.find_pending(link, keys, group, entry.entry_id)
    if pending is None:
        return info
    consumer, _idle_ms, deliveries = pending
    # A second delivery may be of a run that was counted before it began: its `active` event says which run it is.
    attempt = (info.attempt or 0) + 1 if deliveries == 1 else None
    return replace(info, state=JobState.ACTIVE, consumer=consumer, attempt=attempt)


async def _find_delayed(link: Link, keys: QueueKeys, job_id: JobId, looked_at: int, most: int | None) -> JobInfo | None:
    found = await delayed.find_delayed(link, keys, job_id, at_most=looked_at)
    if found is None:
        return None
    member, run_at_ms = found
    job = await asyncio.to_thread(delayed_job, member, most)
    if job is None:
        return JobInfo(id=job_id, state=JobState.DELAYED, run_at_ms=run_at_ms)
    state = JobState.FAILED if job.attempt else JobState.DELAYED
    standing = await priorities.read_standing(link, keys, job_id)
    info = replace(_of_job(job_id, state, job), priority=standing.priority)
    if standing.is_staged:
        return replace(info, state=JobState.PRIORITIZED)
    return replace(info, run_at_ms=run_at_ms)


async def _find_dead(link: Link, keys: QueueKeys, job_id: JobId, looked_at: int, most: int | None) -> JobInfo | None:
    entry = await stream.find_entry(link, keys.dlq, job_id, newest_first=True, at_most=looked_at)
    [record] = await results.get_failures(link, keys, [job_id])
    if entry is None and record is None:
        return None
    info = JobInfo(id=job_id, state=JobState.DEAD)
    if entry is not None:
        info = await _describe(job_id, JobState.DEAD, entry, most)
        reason, detail = entry.fields.get(b"reason", b""), entry.fields.get(b"detail")
        error = None if detail is None else detail.decode(errors="replace")
        # The envelope is from before its last run.
        info = replace(
            info, reason=reason.decode(errors="replace"), last_error=error, attempt=None, dlq_id=entry.entry_id
        )
    if record is not None:
        # Other programs may have written anything there; the dead letter has its own reason.
        with contextlib.suppress(DecodeError):
            dead_reason, error, attempt = decode_failure(record)
            if entry is None and error is None and dead_reason in STATE_BY_EVENT:
                return replace(info, state=STATE_BY_EVENT[dead_reason], attempt=attempt)
            info = replace(
                info, reason=dead_reason, last_error=error, attempt=attempt, traceback=decode_traceback(record)
            )
    return info


async def _find_ended(link: Link, keys: QueueKeys, job_id: JobId) -> JobInfo | None:
    [result] = await results.get_results(link, keys, [job_id])
    return None if result is None else JobInfo(id=job_id, state=JobState.COMPLETED)


async def _with_history(link: Link, keys: QueueKeys, info: JobInfo, looked_at: int) -> JobInfo:
    """Adds what only the events hold: last error, progress, times, and the outcome of a job that left no trace."""
    async for fields in events_commands.find_events_of(link, keys, info.id, at_most=looked_at):
        event = QueueEvent.of("", fields)
        if event.name == "removed" and info.state is JobState.UNKNOWN:
            break
        info = _with_event(info, event)
        if event.name in ("failed", "delayed") or (info.attempt == 0 and info.state is not JobState.UNKNOWN):
            break
    return info


def _with_event(info: JobInfo, event: QueueEvent) -> JobInfo:
    """The same job, with one more event, which is older than those before."""
    if info.state is JobState.UNKNOWN and event.name in STATE_BY_EVENT:
        info = replace(info, state=STATE_BY_EVENT[event.name])
    if not info.name:
        info = replace(info, name=event.job_name)
    attempt = event.fields.get("attempt")
    if info.attempt is None and isinstance(attempt, int) and event.name in ("active", "completed", "failed", "dlq"):
        info = replace(info, attempt=attempt)
    if event.name == "failed" and info.last_error is None:
        info = replace(info, last_error=event_error(event.fields))
    if event.name == "dlq" and info.state is JobState.DEAD and info.reason is None:
        info = replace(info, reason=str(event.fields.get("reason", "")))
    if event.name == "progress" and info.progress is None:
        info = replace(info, progress=event.fields.get("progress"))
    worker = event.fields.get("worker")
    if info.consumer is None and event.name in ("completed", "failed") and isinstance(worker, str):
        info = replace(info, consumer=worker)
    return _with_times(info, event)


def _with_times(info: JobInfo, event: QueueEvent) -> JobInfo:
    """The times of its last run, from the newest event that starts or ends one."""
    at_ms, duration_us = event.fields.get("ts"), event.fields.get("duration_us")
    known = info.started_at_ms is not None or info.ended_at_ms is not None
    if known or info.attempt == 0 or not isinstance(at_ms, int):
        return info
    if event.name == "active":
        return replace(info, started_at_ms=at_ms)
    if event.name not in ("completed", "failed"):
        return info
    if not isinstance(duration_us, int):
        return replace(info, ended_at_ms=at_ms)
    started_at_ms = at_ms - duration_us // 1000
    return replace(info, started_at_ms=started_at_ms, ended_at_ms=at_ms, duration_ms=duration_us / 1000)


# A job deeper in the queue than was searched shows by its last event.
STATE_BY_EVENT = {
    "waiting": JobState.WAITING,
    "active": JobState.ACTIVE,
    "progress": JobState.ACTIVE,
    "completed": JobState.COMPLETED,
    "failed": JobState.FAILED,
    "retry-scheduled": JobState.FAILED,
    "delayed": JobState.DELAYED,
    "dlq": JobState.DEAD,
    "aborted": JobState.ABORTED,
    "expired": JobState.EXPIRED,
}
_STATES_IN_DELAYED = (JobState.DELAYED, JobState.FAILED)


async def _describe(job_id: JobId, state: JobState, entry: Entry, payload_chars: int | None) -> JobInfo:
    name = entry.fields.get(b"n", b"").decode(errors="replace")
    try:
        # Decoding can take long, and would block the event loop meanwhile.
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
        max_attempts=job.retry.max_attempts if job.retry else None,
    )


def delayed_job(member: bytes, payload_chars: int | None = None) -> Job | None:
    """The job in a member of the delayed set, with `payload_chars` of its payload; None when it is unreadable."""
    try:
        name, envelope = decode_delayed(member)
        return glimpse_job(envelope, name, payload_chars)
    except DecodeError:
        return None
