"""What a queue holds, as lists to look at: jobs that wait, jobs that run, and what was told of them."""

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
from chasqui_engine.codec import decode_id
from chasqui_engine.errors import DecodeError
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.job import Job, JobId
from chasqui_engine.payload_preview import glimpse_job


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """A job on the stream; where a worker has it, with who and for how long."""

    entry_id: str
    """Its place on the stream; ids begin with the time of the server's clock."""
    job_id: JobId | None
    """None when it cannot be read."""
    name: str
    job: Job | None
    """None when it cannot be read."""
    consumer: str | None = None
    idle_ms: int = 0
    """Since its worker last said that it has it."""
    deliveries: int = 0


async def waiting(
    link: Link, keys: QueueKeys, group: str, *, after: str | None, limit: int, payload_chars: int | None
) -> list[ListedJob]:
    """Jobs that wait, the next to run first."""
    found = await stream.list_waiting(link, keys, group, after=after, count=limit) if limit else []
    # Decoding can take long, and nothing else would run on this loop meanwhile.
    return await asyncio.to_thread(lambda: [_listed(entry, payload_chars) for entry in found])


async def active(link: Link, keys: QueueKeys, group: str, *, limit: int, payload_chars: int | None) -> list[ListedJob]:
    """Jobs in the hands of the group's workers, the oldest first."""
    held = await group_commands.list_pending(link, keys, group, count=limit) if limit else []
    found = await stream.get_entries(link, keys.stream, [one.entry_id for one in held])
    pairs = [(entry, one) for one, entry in zip(held, found, strict=True) if entry is not None]  # some have just ended
    return await asyncio.to_thread(lambda: [_listed(entry, payload_chars, one) for entry, one in pairs])


async def newest_events(link: Link, keys: QueueKeys, *, after: str, before: str | None, limit: int) -> list[QueueEvent]:
    """Events after one id, and before another if it is given; the newest first."""
    found = await events_commands.list_newest(link, keys, after=after, before=before, count=limit) if limit else []
    return [QueueEvent.of(entry_id, fields) for entry_id, fields in found]


async def events_of_job(link: Link, keys: QueueKeys, job_id: JobId, *, limit: int) -> list[QueueEvent]:
    """What was told of a job, the oldest first: up to `limit` events, among the newest that the queue keeps."""
    events: list[QueueEvent] = []
    async for fields in events_commands.find_events_of(link, keys, job_id, at_most=SEARCHED):
        events.append(QueueEvent.of("", fields))
        if len(events) >= limit:
            break
    return events[::-1]


def _listed(entry: Entry, payload_chars: int | None, held: group_commands.PendingEntry | None = None) -> ListedJob:
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
        consumer=None if held is None else held.consumer,
        idle_ms=0 if held is None else held.idle_ms,
        deliveries=0 if held is None else held.deliveries,
    )
