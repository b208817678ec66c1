"""Commands on the delayed set: schedule, cancel, find, move, promote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chasqui_engine._redis.client.link import Argument, Link
from chasqui_engine._redis.commands import headers, scripts
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.headers import HEADERS_TTL_S
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.durations import stored_ms

_SCHEDULE = scripts.load("delayed/schedule")
_CANCEL = scripts.load("delayed/cancel")
_CANCEL_SCAN = scripts.load("delayed/cancel_by_scan")
_DUE = scripts.load("delayed/due")
_PROMOTE = scripts.load("delayed/promote", on_full_server="zset")
_PROMOTE_ONE = scripts.load("delayed/promote_one", on_full_server="zset")
_IDS_PER_CALL = 500
_SCAN_PAGE = 1000
_ROUND_BYTES = 4 * 1024 * 1024
"""Bytes that one round of promotion may move, so that large jobs do not block the server for long."""
_FURTHEST_MS = 2.0**53


@dataclass(frozen=True, slots=True)
class Due:
    """The delayed jobs that are due."""

    now_ms: int
    """The server's clock."""
    depth: int
    """The number of delayed jobs."""
    oldest_ms: int | None
    """When the first of them is, or was, due."""
    more: bool
    """Whether there may be more due jobs than `job_ids`."""
    with_headers: bool
    """Whether jobs of this queue may have headers."""
    job_ids: list[bytes]
    """One id per due job, in due order; empty for a job without one."""


@dataclass(frozen=True, slots=True)
class Promoted:
    """What one round of promotion did, and what it left."""

    count: int
    """Jobs that were still there to move."""
    lag_ms: int
    """How overdue the first that is left is; 0 when nothing is."""


async def schedule(
    link: Link,
    keys: QueueKeys,
    jobs: Sequence[tuple[int, bytes, str, str, bool, bytes]],
    *,
    relative: bool,
    taken_ttl_s: int,
    events_max: int,
) -> int:
    """Delays (ms, member, id, name, whether the id is the caller's own, headers); returns how many were new."""
    used = [keys.delayed, keys.events]
    with_headers = any(row[-1] for row in jobs)
    args: list[Argument] = [taken_ttl_s, events_max, int(relative), HEADERS_TTL_S if with_headers else ""]
    own_ids = 0
    for at_ms, member, job_id, name, own, own_headers in jobs:
        if own:
            own_ids += 1
            used += (keys.taken(job_id), keys.delayed_index(job_id))
            args += (at_ms, member, job_id, name, len(used) - 1)
        else:
            args += (at_ms, member, job_id, name, 0)
        if with_headers:
            used.append(keys.headers(job_id))
            args += (own_headers, len(used))
    if with_headers:
        used.append(keys.uses)
    # Not resent: jobs without an id would be added twice, also when promoted in the meantime.
    scheduled: int = await link.run(_SCHEDULE, used, args, resend=own_ids == len(jobs))
    return scheduled


async def cancel(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> list[bool]:
    """Cancels delayed jobs; True for each that was still delayed."""
    cancelled: set[str] = set()
    for page in _pages(job_ids):
        used = [keys.delayed]
        for job_id in page:
            used += (keys.delayed_index(job_id), keys.taken(job_id))
        # Not resent: it would report a job that it had cancelled as missing.
        replies = await link.run(_CANCEL, used, [], resend=False)
        cancelled.update(job_id for job_id, found in zip(page, replies, strict=True) if found)
    await priorities.forget_removed(link, keys, list(cancelled))
    cancelled |= await priorities.cancel(link, keys, [job_id for job_id in job_ids if job_id not in cancelled])
    for page in _pages([job_id for job_id in job_ids if job_id not in cancelled]):
        cancelled |= await _cancel_by_scan(link, keys, page)
    await headers.forget_removed(link, keys, list(cancelled))
    return [job_id in cancelled for job_id in job_ids]


def _pages(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (job_ids[start : start + _IDS_PER_CALL] for start in range(0, len(job_ids), _IDS_PER_CALL))


async def _cancel_by_scan(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> set[str]:
    # Jobs without an id, and those that wait for a retry, have no index: an index would cost every delayed
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
    """The next round of jobs to promote."""
    reply = await link.run(_DUE, [keys.delayed, keys.uses], [limit, _ROUND_BYTES])
    now_ms, depth, oldest, more, with_headers, *job_ids = reply
    oldest_ms = _whole_ms(float(oldest)) if oldest else None
    return Due(now_ms, depth, oldest_ms, bool(more), bool(with_headers), job_ids)


def _whole_ms(score: float) -> int:
    """A score as milliseconds; an infinite one becomes the furthest possible time."""
    return int(max(0.0, min(score, _FURTHEST_MS)))


async def promote(link: Link, keys: QueueKeys, due_now: Due, *, events_max: int) -> Promoted:
    """Moves the jobs found by `due` onto the stream."""
    job_ids = due_now.job_ids
    own = [job_id for job_id in job_ids if job_id]
    index = keys.delayed_index("").encode()
    used: list[Argument] = [keys.delayed, keys.stream, keys.events, keys.prio, keys.prio_jobs, keys.prio_state]
    used += [index + job_id for job_id in own]
    if due_now.with_headers:
        prefix = keys.headers("").encode()
        used += [prefix + job_id for job_id in own]
    moved, now_ms, first = await link.run(_PROMOTE, used, [events_max, len(job_ids), _ROUND_BYTES, *own])
    return Promoted(moved, max(0, now_ms - _whole_ms(float(first))) if first else 0)


async def promote_one(link: Link, keys: QueueKeys, job_id: str, member: bytes, *, events_max: int) -> bool:
    """Moves one delayed job onto the stream; True if it was still delayed."""
    used = [keys.delayed, keys.stream, keys.events, keys.delayed_index(job_id), keys.headers(job_id)]
    # Not resent: it would report a job that it had moved as missing.
    moved = bool(await link.run(_PROMOTE_ONE, used, [events_max, member], resend=False))
    await priorities.forget_removed(link, keys, [job_id])
    return moved


_FIND_DELAYED = scripts.load("delayed/find")
_RESCHEDULE = scripts.load("delayed/reschedule")
_PAGE = 1000


class DelayedSearch(NamedTuple):
    """What a search for a delayed job found."""

    found: tuple[bytes, int] | None
    """(member, time in ms) of the job."""
    all_seen: bool
    """Whether the whole set was searched: a job that was not found is not in it."""


async def search_delayed(link: Link, keys: QueueKeys, job_id: str, *, at_most: int) -> DelayedSearch:
    """Looks for a delayed job by its index, then among `at_most` members."""
    # A job with a priority is found by that.
    for look in (("GET", keys.delayed_index(job_id)), ("HGET", keys.prio_jobs, job_id)):
        member = await link.call(*look)
        if member is not None and (score := await link.call("ZSCORE", keys.delayed, member)) is not None:
            return DelayedSearch((member, stored_ms(float(score))), all_seen=False)
    cursor: bytes = b"0"
    for _ in range(-(-at_most // _PAGE)):
        cursor, *found = await link.run(_FIND_DELAYED, [keys.delayed], [cursor, _PAGE, job_id])
        if found:
            return DelayedSearch((found[0], stored_ms(float(found[1]))), all_seen=False)
        if cursor == b"0":
            return DelayedSearch(None, all_seen=True)
    return DelayedSearch(None, all_seen=False)


async def find_delayed(link: Link, keys: QueueKeys, job_id: str, *, at_most: int) -> tuple[bytes, int] | None:
    """(member, time in ms) of a delayed job: by its index, or among `at_most` that are searched."""
    return (await search_delayed(link, keys, job_id, at_most=at_most)).found


async def list_delayed(
    link: Link, keys: QueueKeys, *, start: int, count: int, least_ms: int | None = None
) -> list[tuple[bytes, int]]:
    """(member, time in ms) of delayed jobs, the next first; of those from `least_ms` on, or of all."""
    least = "-inf" if least_ms is None else least_ms
    reply = await link.call("ZRANGEBYSCORE", keys.delayed, least, "+inf", "WITHSCORES", "LIMIT", start, count)
    return [(member, stored_ms(float(score))) for member, score in zip(reply[::2], reply[1::2], strict=True)]


async def move_delayed(
    link: Link, keys: QueueKeys, job_id: str, member: bytes, run_at_ms: int, *, taken_ttl_s: int
) -> bool:
    """Gives a delayed job another time; True if it was still delayed."""
    used = [keys.delayed, keys.taken(job_id), keys.delayed_index(job_id)]
    return bool(await link.run(_RESCHEDULE, used, [member, run_at_ms, taken_ttl_s]))
