"""Commands on jobs with a priority, which wait beside the stream: add, take, change, cancel, list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import Argument, Link
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.group import Delivery, GroupMember, read_deliveries
from chasqui_engine._redis.commands.headers import HEADERS_TTL_S
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import decode_id
from chasqui_engine.values.job import Moment

_ADD = scripts.load("priority/add")
_TAKE = scripts.load("priority/take", on_full_server="stream")
_CHANGE = scripts.load("priority/change")
_CANCEL = scripts.load("priority/cancel", on_full_server="zset")
_FORGET = scripts.load("priority/forget", on_full_server="zset")
_PAGE = 500
_LANE = 2**32
"""As in includes/priorities.lua."""


class PriorityJob(NamedTuple):
    """A job with a priority that is to be written."""

    job_id: str
    member: bytes
    """As in the delayed set."""
    name: str
    own_id: bool
    priority: int
    moment: Moment | None
    """When it is to run; None for now."""
    headers: bytes


async def add(
    link: Link,
    keys: QueueKeys,
    jobs: Sequence[PriorityJob],
    *,
    most: int | None,
    taken_ttl_s: int,
    longest_wait_ms: int,
    events_max: int,
) -> int:
    """Adds jobs, all or none; returns how many were new, or -1 if there is no room within `most`."""
    used = [keys.stream, keys.delayed, keys.events, *_keys_of(keys), keys.prio_state]
    with_headers = any(job.headers for job in jobs)
    args: list[Argument] = ["" if most is None else most, taken_ttl_s, events_max, longest_wait_ms]
    args.append(HEADERS_TTL_S if with_headers else "")
    for job in jobs:
        args += (job.priority, job.member, job.job_id, job.name)
        args += ("now", 0) if job.moment is None else ("in" if job.moment.relative else "at", job.moment.ms)
        index = headers_index = 0
        if job.own_id:
            used += (keys.taken(job.job_id), keys.delayed_index(job.job_id))
            index = len(used) - 1
        if job.headers:
            used.append(keys.headers(job.job_id))
            headers_index = len(used)
        args += (index, job.headers, headers_index)
    if with_headers:
        used.append(keys.uses)
    # Not resent: jobs without an id would be added twice.
    added: int = await link.run(_ADD, used, args, resend=all(job.own_id for job in jobs))
    return added


def _keys_of(keys: QueueKeys) -> tuple[str, str]:
    return keys.prio, keys.prio_jobs


class Taken(NamedTuple):
    """What a take has found."""

    deliveries: list[Delivery]
    others_wait: bool
    """Whether there are none because other jobs wait on the stream."""
    with_headers: bool
    """Whether jobs may have headers that are not in their entries."""


async def take(link: Link, member: GroupMember, count: int, *, read_at: float) -> Taken:
    """Up to `count` staged jobs, the first by priority, if no others are before them."""
    keys = member.keys
    # A lost reply leaves entries in our name: they are claimed once they were idle long enough.
    used = [keys.stream, keys.delayed, *_keys_of(keys), keys.uses]
    others_wait, with_headers, *entries = await link.run(
        _TAKE, used, [member.group, member.consumer, count], resend=False
    )
    return Taken(read_deliveries(entries, read_at), bool(others_wait), bool(with_headers))


async def change(link: Link, keys: QueueKeys, job_id: str, member: bytes, priority: int) -> bool:
    """Gives a job in the delayed set another priority; True if it was still there."""
    used = [keys.delayed, keys.stream, *_keys_of(keys), keys.prio_state]
    return bool(await link.run(_CHANGE, used, [job_id, member, priority], resend=False))


async def cancel(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> set[str]:
    """Cancels those of these jobs that have a priority and are not on the stream; returns them."""
    cancelled: set[str] = set()
    if not job_ids or not await link.call("EXISTS", keys.prio):
        return cancelled
    for start in range(0, len(job_ids), _PAGE):
        page = job_ids[start : start + _PAGE]
        used = [keys.delayed, *_keys_of(keys)]
        for job_id in page:
            used += (keys.delayed_index(job_id), keys.taken(job_id))
        # Not resent: it would report a job that it had cancelled as missing.
        replies = await link.run(_CANCEL, used, page, resend=False)
        cancelled.update(job_id for job_id, found in zip(page, replies, strict=True) if found)
    return cancelled


async def forget_removed(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> None:
    """Forgets the priorities of jobs that have left the delayed set, if the queue has any."""
    if not job_ids or not await link.call("EXISTS", keys.prio):
        return
    for start in range(0, len(job_ids), _PAGE):
        await link.run(_FORGET, [keys.delayed, *_keys_of(keys)], job_ids[start : start + _PAGE])


async def are_staged(link: Link, keys: QueueKeys, members: Sequence[bytes]) -> list[bool]:
    """Whether each of these members of the delayed set waits for its priority's turn."""
    if not members or not await link.call("EXISTS", keys.prio):
        return [False] * len(members)
    ids = [decode_id(member[4 + int.from_bytes(member[:4], "little") :]) or "" for member in members]
    return [_is_staged(rank) for rank in await link.call("ZMSCORE", keys.prio, *ids)]


def _is_staged(rank: Any) -> bool:
    return rank is not None and float(rank) >= _LANE


class Standing(NamedTuple):
    """The priority of a job in the delayed set."""

    priority: int
    """0 is none."""
    is_staged: bool
    """Whether it waits for its turn; else it is delayed."""


async def read_standing(link: Link, keys: QueueKeys, job_id: str) -> Standing:
    """The priority of a job in the delayed set."""
    rank = await link.call("ZSCORE", keys.prio, job_id)
    return Standing(0, False) if rank is None else Standing(priority_of(rank), _is_staged(rank))


def priority_of(rank: Any) -> int:
    """The priority in a rank."""
    number = int(float(rank))
    return number // _LANE if number > 0 else -number


async def list_staged(
    link: Link, keys: QueueKeys, *, after: str | None, start: int, count: int
) -> list[tuple[bytes, bytes, str]]:
    """(id, member, rank) of staged jobs, the first by priority; after a rank, or all."""
    least = _LANE if after is None else f"({after}"
    reply = await link.call("ZRANGEBYSCORE", keys.prio, least, "+inf", "WITHSCORES", "LIMIT", start, count)
    ids, ranks = reply[::2], reply[1::2]
    members = await link.call("HMGET", keys.prio_jobs, *ids) if ids else []
    return [(one, member or b"", f"{float(rank):.0f}") for one, member, rank in zip(ids, members, ranks, strict=True)]
