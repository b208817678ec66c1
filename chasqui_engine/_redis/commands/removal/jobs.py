"""Commands that delete jobs: waiting and delayed ones, dead letters, results, or a whole queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from chasqui_engine._redis.client.link import Argument, Link
from chasqui_engine._redis.client.replies import decode_text
from chasqui_engine._redis.commands import headers, scripts
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.keys import QueueKeys

_LIST_WAITING = scripts.load("stream/list_waiting")
_REMOVE_WAITING = scripts.load("stream/remove", on_full_server="stream")
_LIST_DELAYED = scripts.load("delayed/list_page")
_REMOVE_DELAYED = scripts.load("delayed/remove", on_full_server="zset")
_REMOVE_DEAD = scripts.load("dead_letters/remove", on_full_server="stream")
_OBLITERATE = scripts.load("queue/obliterate", on_full_server="stream")
PAGE = 500
_PAGE_BYTES = 4 * 1024 * 1024
"""Bytes that one call looks at, so that large jobs do not block the server for long."""
_SCAN_PAGE = 1000
_GLOB = str.maketrans({character: f"\\{character}" for character in "\\*?[]"})
GIVEN_OUT = -1
"""The reply for an entry in flight."""


class WaitingEntry(NamedTuple):
    """A job that waits on the stream, without its payload."""

    entry_id: bytes
    job_id: bytes
    """Empty if it is missing or unreadable."""
    name: bytes


class DelayedMember(NamedTuple):
    """A job in the delayed set."""

    member: bytes
    job_id: str
    name: str


async def list_waiting(
    link: Link, keys: QueueKeys, group: str, *, after: bytes, until: str, count: int
) -> list[WaitingEntry]:
    """A page of waiting jobs, the next to run first; empty at the end."""
    args: list[Argument] = [group, after, until, min(count, PAGE), _PAGE_BYTES]
    reply = await link.run(_LIST_WAITING, [keys.stream], args)
    return [WaitingEntry(*reply[n : n + 3]) for n in range(0, len(reply), 3)]


async def last_entry_id(link: Link, keys: QueueKeys) -> str:
    """The last id of the stream; the lowest possible id if there is no stream."""
    [reply] = await link.call_many([("XINFO", "STREAM", keys.stream)])
    if not isinstance(reply, list):
        return "0-0"
    return decode_text(dict(zip(reply[::2], reply[1::2], strict=True))[b"last-generated-id"])


async def remove_waiting(
    link: Link, keys: QueueKeys, group: str, entries: Sequence[WaitingEntry], *, events_max: int
) -> list[int]:
    """Deletes waiting jobs; per entry 1 if deleted, 0 if missing, `GIVEN_OUT` if it is in flight."""
    taken = keys.taken("").encode()
    used: list[Argument] = [keys.stream, keys.events, *(taken + entry.job_id for entry in entries)]
    args: list[Argument] = [group, events_max]
    for entry in entries:
        args += entry
    # Not resent: it would report what it had deleted as missing; so would those below.
    reply: list[int] = await link.run(_REMOVE_WAITING, used, args, resend=False)
    await headers.forget_removed(
        link, keys, [one.job_id for one, gone in zip(entries, reply, strict=True) if gone == 1]
    )
    return reply


async def list_delayed(link: Link, keys: QueueKeys, *, start: int, count: int) -> list[bytes]:
    """A page of members of the delayed set, the next to run first; empty at the end."""
    found: list[bytes] = await link.run(_LIST_DELAYED, [keys.delayed], [start, min(count, PAGE), _PAGE_BYTES])
    return found


async def count_delayed(link: Link, keys: QueueKeys) -> int:
    """How many jobs are delayed."""
    count: int = await link.call("ZCARD", keys.delayed)
    return count


async def remove_delayed(
    link: Link, keys: QueueKeys, members: Sequence[DelayedMember], *, events_max: int
) -> list[bool]:
    """Deletes delayed jobs; True for each that was still delayed."""
    used = [keys.delayed, keys.events]
    args: list[Argument] = [events_max]
    for one in members:
        used += (keys.delayed_index(one.job_id), keys.taken(one.job_id))
        args += one
    removed = [bool(found) for found in await link.run(_REMOVE_DELAYED, used, args, resend=False)]
    gone = [one.job_id for one, was_there in zip(members, removed, strict=True) if was_there]
    await headers.forget_removed(link, keys, gone)
    await priorities.forget_removed(link, keys, gone)
    return removed


async def remove_dead(link: Link, keys: QueueKeys, letters: Sequence[tuple[str, str]]) -> list[bool]:
    """Deletes dead letters, each given as (its id, its job's id); True for each that existed."""
    used = [keys.dlq, *(keys.failure(job_id) for _, job_id in letters)]
    args = [dlq_id for dlq_id, _ in letters]
    return [bool(found) for found in await link.run(_REMOVE_DEAD, used, args, resend=False)]


async def remove_outcome(link: Link, keys: QueueKeys, job_id: str) -> bool:
    """Deletes a job's result or failure, log and headers, and frees its id; True if there was a result or failure."""
    await link.call("DEL", keys.taken(job_id), keys.log(job_id), keys.headers(job_id))
    return bool(await link.call("DEL", keys.result(job_id), keys.failure(job_id), resend=False))


async def scan(link: Link, prefix: str) -> AsyncIterator[list[bytes]]:
    """All keys with a prefix, page by page; scans every key of the server, or of one Cluster node."""
    cursor = b"0"
    while True:
        cursor, page = await link.call("SCAN", cursor, "MATCH", f"{prefix.translate(_GLOB)}*", "COUNT", _SCAN_PAGE)
        yield page
        if cursor == b"0":
            return


async def obliterate(link: Link, keys: QueueKeys, *, force: bool) -> int:
    """Deletes jobs, dead letters, events, repeatables and pause at once; returns how many keys.

    If jobs are running and it is not forced, deletes nothing and returns minus their number.
    """
    used = [keys.stream, keys.delayed, keys.dlq, keys.events, keys.repeat, keys.paused]
    used += [keys.prio, keys.prio_jobs, keys.prio_state, keys.limits, keys.limiter]
    reply: int = await link.run(_OBLITERATE, used, [int(force)], resend=False)
    return reply


async def unlink(link: Link, names: Sequence[bytes]) -> int:
    """Deletes keys; returns how many existed."""
    removed: int = await link.call("UNLINK", *names, resend=False)
    return removed
