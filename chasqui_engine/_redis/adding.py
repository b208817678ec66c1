"""The way in: jobs onto the stream, into the delayed set, off it again, and from there onto the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chasqui_engine._redis import scripts
from chasqui_engine._redis.connection import Argument, Link
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.errors import QueueFullError

_ADD = scripts.load("add")
_SCHEDULE = scripts.load("schedule")
_CANCEL = scripts.load("cancel")
_CANCEL_SCAN = scripts.load("cancel_scan")
_DUE = scripts.load("due")
_PROMOTE = scripts.load("promote", on_full_server="zset")
_PROMOTE_ONE = scripts.load("promote_one", on_full_server="zset")

_IDS_PER_CALL = 500
_SCAN_PAGE = 1000
_ROUND_BYTES = 4 * 1024 * 1024
"""What one round of promotion may move, so that large jobs do not keep the server from everything else for long."""
_FURTHEST_MS = 2.0**53


class Added(NamedTuple):
    """What came of an add."""

    new: int
    """Jobs written; those whose id was taken are not among them."""
    room: int
    """How many more would have fitted; 0 where the oldest are trimmed."""


@dataclass(frozen=True, slots=True)
class Due:
    """What the delayed set holds that should run by now."""

    now_ms: int
    """The server's clock."""
    depth: int
    """Delayed jobs in all."""
    oldest_ms: int | None
    """When the first of them is, or was, due."""
    more: bool
    """Whether there may be more than `job_ids` tells of."""
    job_ids: list[bytes]
    """One for each job that is due, the first due first; empty for what has none."""


async def add(
    link: Link,
    keys: QueueKeys,
    jobs: Sequence[tuple[str, bytes, str | None]],
    *,
    max_len: int,
    trim: bool,
    taken_ttl_s: int,
    to_come: int = 0,
) -> Added:
    """Adds (name, envelope, own id or None), all or none.

    `to_come` more jobs of the same call must fit as well.
    """
    used = [keys.stream]
    args: list[Argument] = [max_len if trim else max_len - to_come, int(trim), taken_ttl_s]
    for name, envelope, own_id in jobs:
        if own_id is None:
            args += (name, envelope, 0)
        else:
            used.append(keys.taken(own_id))
            args += (name, envelope, len(used))
    # Sent again, a job without an id of its own would be added again.
    added = Added(*await link.run(_ADD, used, args, resend=len(used) == len(jobs) + 1))
    if added.new < 0:
        raise QueueFullError(
            f"queue {keys.queue!r} has no room for {len(jobs) + to_come} more jobs within max_stream_len={max_len}. "
            "Let workers catch up, raise max_stream_len, or pass when_full='trim' to drop the oldest"
        )
    return added


async def add_unasked(link: Link, keys: QueueKeys, name: str, envelope: bytes) -> None:
    """Adds one job without an id of its own to a stream that is known to have room."""
    if name:
        await link.call("XADD", keys.stream, "*", "d", envelope, "n", name, resend=False)
    else:
        await link.call("XADD", keys.stream, "*", "d", envelope, resend=False)


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
    # Sent again, a job without an id of its own would be added again, also one that was promoted meanwhile.
    scheduled: int = await link.run(_SCHEDULE, used, args, resend=own_ids == len(jobs))
    return scheduled


async def cancel(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> list[bool]:
    """Takes delayed jobs back; True for each that was still delayed."""
    cancelled: set[str] = set()
    for page in _pages(job_ids):
        used = [keys.delayed]
        for job_id in page:
            used += (keys.delayed_index(job_id), keys.taken(job_id))
        # Sent again, it would answer that a job it had taken off was not there.
        replies = await link.run(_CANCEL, used, [], resend=False)
        cancelled.update(job_id for job_id, found in zip(page, replies, strict=True) if found)
    for page in _pages([job_id for job_id in job_ids if job_id not in cancelled]):
        cancelled |= await _cancel_by_scan(link, keys, page)
    return [job_id in cancelled for job_id in job_ids]


def _pages(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (job_ids[start : start + _IDS_PER_CALL] for start in range(0, len(job_ids), _IDS_PER_CALL))


async def _cancel_by_scan(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> set[str]:
    # Jobs without an id of their own, and those that wait for a retry, have no index: that would cost every delayed
    # job what few ever need.
    used = [keys.delayed, *map(keys.taken, job_ids)]
    cancelled: set[str] = set()
    cursor: bytes = b"0"
    while True:
        cursor, *found = await link.run(_CANCEL_SCAN, used, [cursor, _SCAN_PAGE, *job_ids], resend=False)
        cancelled.update(job_ids[number - 1] for number in found)
        if cursor == b"0" or len(cancelled) == len(job_ids):
            return cancelled


async def due(link: Link, keys: QueueKeys, limit: int) -> Due:
    """What should be promoted now: the next round of it."""
    now_ms, depth, oldest, more, *job_ids = await link.run(_DUE, [keys.delayed], [limit, _ROUND_BYTES])
    return Due(now_ms, depth, _whole_ms(float(oldest)) if oldest else None, bool(more), job_ids)


def _whole_ms(score: float) -> int:
    """A score as milliseconds; one without end is as far away as any can be."""
    return int(max(0.0, min(score, _FURTHEST_MS)))


async def promote(link: Link, keys: QueueKeys, job_ids: Sequence[bytes], *, events_max: int) -> int:
    """Moves the jobs that `due` told of onto the stream; returns how many were still there to move."""
    own = [job_id for job_id in job_ids if job_id]
    index = keys.delayed_index("").encode()
    used: list[Argument] = [keys.delayed, keys.stream, keys.events, *(index + job_id for job_id in own)]
    moved: int = await link.run(_PROMOTE, used, [events_max, len(job_ids), _ROUND_BYTES, *own])
    return moved


async def promote_one(link: Link, keys: QueueKeys, job_id: str, member: bytes, *, events_max: int) -> bool:
    """Moves one delayed job onto the stream; True if it was still delayed."""
    used = [keys.delayed, keys.stream, keys.events, keys.delayed_index(job_id)]
    # Sent again, it would answer that a job it had moved was not there.
    return bool(await link.run(_PROMOTE_ONE, used, [events_max, member], resend=False))
