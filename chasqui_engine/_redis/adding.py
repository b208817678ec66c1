"""The way in: jobs onto the stream, into the delayed set, off it again, and from there onto the stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chasqui_engine._redis import scripts
from chasqui_engine._redis.connection import Argument, CommandError, Link, ReplyError
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.codec import encode_payload
from chasqui_engine.errors import QueueFullError

_ADD = scripts.load("add")
_SCHEDULE = scripts.load("schedule")
_CANCEL = scripts.load("cancel")
_CANCEL_SCAN = scripts.load("cancel_scan")
_DUE = scripts.load("due")
_PROMOTE = scripts.load("promote", on_full_server=True)

_SCAN_PAGE = 1000
_NOT_INDEXED = -1


@dataclass(frozen=True, slots=True)
class Due:
    """What the delayed set holds that should run by now."""

    now_ms: int
    """The server's clock."""
    depth: int
    """Delayed jobs in all."""
    oldest_ms: int | None
    """When the first of them is, or was, due."""
    members: list[bytes]


async def add(
    link: Link,
    keys: QueueKeys,
    jobs: Sequence[tuple[str, bytes, str | None]],
    *,
    max_len: int,
    trim: bool,
    taken_ttl_s: int,
    to_come: int = 0,
) -> int:
    """Adds (name, envelope, own id or None); returns how many were new. All or none are added.

    `to_come` more jobs of the same call must fit as well.
    """
    used = [keys.stream]
    args: list[Argument] = [max_len - to_come, int(trim), taken_ttl_s]
    for name, envelope, own_id in jobs:
        if own_id is None:
            args += (name, envelope, 0)
        else:
            used.append(keys.taken(own_id))
            args += (name, envelope, len(used))
    # Sent again, a job without an id of its own would be added again.
    added: int = await link.run(_ADD, used, args, resend=len(used) == len(jobs) + 1)
    if added < 0:
        raise QueueFullError(
            f"queue {keys.queue!r} has no room for {len(jobs) + to_come} more jobs within max_stream_len={max_len}. "
            "Let workers catch up, raise max_stream_len, or pass when_full='trim' to drop the oldest"
        )
    return added


async def schedule(
    link: Link,
    keys: QueueKeys,
    jobs: Sequence[tuple[int, bytes, str, str, bool]],
    *,
    relative: bool,
    taken_ttl_s: int,
    events_max: int,
) -> int:
    """Delays (ms, member, id, name, whether the id is the caller's own); returns how many were new."""
    used = [keys.delayed, keys.events]
    args: list[Argument] = [taken_ttl_s, events_max, int(relative)]
    own_ids = 0
    for at_ms, member, job_id, name, own in jobs:
        if own:
            own_ids += 1
            used += (keys.taken(job_id), keys.delayed_index(job_id))
            args += (at_ms, member, job_id, name, len(used) - 1)
        else:
            args += (at_ms, member, job_id, name, 0)
    # A member that is there already stays one member, so an absolute time can be sent again as well.
    resend = own_ids == len(jobs) or not relative
    scheduled: int = await link.run(_SCHEDULE, used, args, resend=resend)
    return scheduled


async def cancel(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> list[bool]:
    """Takes delayed jobs back; True for each that was still delayed."""
    calls = [([keys.delayed, keys.delayed_index(job_id), keys.taken(job_id)], ()) for job_id in job_ids]
    replies = await link.run_many(_CANCEL, calls)
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise CommandError(str(reply))
    return [
        await _cancel_by_scan(link, keys, job_id) if reply == _NOT_INDEXED else reply == 1
        for job_id, reply in zip(job_ids, replies, strict=True)
    ]


async def _cancel_by_scan(link: Link, keys: QueueKeys, job_id: str) -> bool:
    # Jobs without an id of their own have no index: that would cost every delayed job what few ever need.
    packed = encode_payload(job_id)
    cursor: bytes = b"0"
    while True:
        cursor, found = await link.run(
            _CANCEL_SCAN, [keys.delayed, keys.taken(job_id)], [cursor, _SCAN_PAGE, packed], resend=False
        )
        if found or cursor == b"0":
            return bool(found)


async def due(link: Link, keys: QueueKeys, limit: int) -> Due:
    """What should be promoted now."""
    now_ms, depth, oldest, *members = await link.run(_DUE, [keys.delayed], [limit])
    return Due(now_ms, depth, int(float(oldest)) if oldest else None, members)


async def promote(
    link: Link, keys: QueueKeys, jobs: Sequence[tuple[bytes, bytes, str, str]], *, events_max: int
) -> int:
    """Moves (member, envelope, name, id) onto the stream; returns how many were still there to move."""
    used = [keys.delayed, keys.stream, keys.events]
    args: list[Argument] = [events_max]
    for job in jobs:
        used.append(keys.delayed_index(job[3]))
        args += job
    moved: int = await link.run(_PROMOTE, used, args)
    return moved
