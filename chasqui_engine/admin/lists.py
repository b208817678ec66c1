"""Lists of what a queue holds: waiting jobs, active jobs, and events."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import events as events_commands
from chasqui_engine._redis.commands import group as group_commands
from chasqui_engine._redis.commands import stream
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stream import Entry
from chasqui_engine.admin.job_lookup import SEARCHED
from chasqui_engine.codec.envelope import decode_id
from chasqui_engine.codec.preview import glimpse_job
from chasqui_engine.events import QueueEvent
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import DecodeError
from chasqui_engine.values.job import Job, JobId
from chasqui_engine.values.stream_ids import ms_of

_LOOK_S = 0.5
"""How long a search for completed jobs looks before it gives what it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job on the stream, with its worker if it is in flight."""

    entry_id: str
    """Its stream id, which begins with the time by the server's clock."""
    job_id: JobId | None
    """None when it cannot be read."""
    name: str
    job: Job | None
    """None when it cannot be read."""
    consumer: str | None = None
    idle_ms: int = 0
    """Since the last heartbeat of its worker."""
    deliveries: int = 0

    @property
    def since_ms(self) -> int:
        """When it came to the stream, by the server's clock."""
        return ms_of(self.entry_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedJob:
    """A job that completed, as its event tells."""

    entry_id: str
    """Of the event."""
    job_id: JobId
    name: str
    attempt: int | None
    """The run that went well; 1 is the first."""
    duration_ms: float | None
    """How long its handler took."""

    @property
    def at_ms(self) -> int:
        """When, by the server's clock."""
        return ms_of(self.entry_id)


async def list_waiting(
    link: Link, keys: QueueKeys, group: str, *, after: str | None, limit: int, payload_chars: int | None
) -> list[ListedJob]:
    """Waiting jobs, the next to run first."""
    found = await stream.list_waiting(link, keys, group, after=after, count=limit) if limit else []
    # Decoding can take long, and would block the event loop meanwhile.
    return await asyncio.to_thread(lambda: [_describe(entry, payload_chars) for entry in found])


async def list_active(
    link: Link, keys: QueueKeys, group: str, *, after: str | None = None, limit: int, payload_chars: int | None
) -> list[ListedJob]:
    """Jobs in flight with the group's workers, the oldest first."""
    pending = await group_commands.list_pending(link, keys, group, count=limit, after=after) if limit else []
    found = await stream.get_entries(link, keys.stream, [one.entry_id for one in pending])
    pairs = [(entry, one) for one, entry in zip(pending, found, strict=True) if entry is not None]  # ended meanwhile
    return await asyncio.to_thread(lambda: [_describe(entry, payload_chars, one) for entry, one in pairs])


async def list_newest_events(
    link: Link, keys: QueueKeys, *, after: str, before: str | None, limit: int
) -> list[QueueEvent]:
    """Events after one id, and before another if it is given; newest first."""
    found = await events_commands.list_newest(link, keys, after=after, before=before, count=limit) if limit else []
    return [QueueEvent.of(entry_id, fields) for entry_id, fields in found]


async def list_events(link: Link, keys: QueueKeys, after: str, *, limit: int) -> list[QueueEvent]:
    """Events after that id, oldest first."""
    # The shortest wait there is: a page at the end of the stream is empty.
    found = await events_commands.read_events(link, keys, after, count=limit, block_ms=1) if limit else []
    return [QueueEvent.of(entry_id, fields) for entry_id, fields in found]


async def list_completed(
    link: Link,
    keys: QueueKeys,
    *,
    before: str | None,
    name: str,
    since_ms: int,
    until_ms: int | None,
    limit: int,
) -> tuple[list[CompletedJob], str | None]:
    """Jobs that completed, the newest first, and the cursor to read on at; None at the end.

    The time that it takes is bounded: fewer jobs and a cursor mean that many events were read and few matched.
    """
    start = "+" if until_ms is None else str(until_ms)
    if before is not None and (until_ms is None or ms_of(before) <= until_ms):
        start = f"({before}"
    found: list[CompletedJob] = []
    last, began = before, monotonic()
    while len(found) < limit and monotonic() - began < _LOOK_S:
        searched, page = await events_commands.find_completed(
            link, keys, start=start, end=str(since_ms), name=name, most=limit - len(found)
        )
        found += [_describe_completed(entry_id, fields) for entry_id, fields in page]
        if not searched:
            return found, None
        last, start = searched, f"({searched}"
    return found, last


def _describe_completed(entry_id: str, fields: dict[str, str]) -> CompletedJob:
    event = QueueEvent.of(entry_id, fields)
    attempt, duration_us = event.fields.get("attempt"), event.fields.get("duration_us")
    return CompletedJob(
        entry_id=entry_id,
        job_id=event.job_id or "",
        name=event.job_name,
        attempt=attempt if isinstance(attempt, int) else None,
        duration_ms=duration_us / 1000 if isinstance(duration_us, int) else None,
    )


async def list_events_of_job(link: Link, keys: QueueKeys, job_id: JobId, *, limit: int) -> list[QueueEvent]:
    """Up to `limit` events of a job, oldest first, among the newest that the queue keeps."""
    events: list[QueueEvent] = []
    async for fields in events_commands.find_events_of(link, keys, job_id, at_most=SEARCHED):
        events.append(QueueEvent.of("", fields))
        if len(events) >= limit:
            break
    return events[::-1]


def _describe(entry: Entry, payload_chars: int | None, pending: group_commands.PendingEntry | None = None) -> ListedJob:
    name, envelope = entry.fields.get(b"n", b"").decode(errors="replace"), entry.fields.get(b"d", b"")
    try:
        job = glimpse_job(envelope, name, payload_chars)
    except DecodeError:
        job = None
    return ListedJob(
        entry_id=entry.entry_id,
        job_id=job.id if job is not None else decode_id(envelope),
        name=name,
        job=job,
        consumer=None if pending is None else pending.consumer,
        idle_ms=0 if pending is None else pending.idle_ms,
        deliveries=0 if pending is None else pending.deliveries,
    )
