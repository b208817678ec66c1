"""How a queue stands: its counts, its consumers, where a job is; and whether it is paused."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chasqui_engine._redis import scripts
from chasqui_engine._redis.connection import CommandError, Link
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine._redis.replies import ReplyError
from chasqui_engine._redis.taking import Membership
from chasqui_engine.codec import encode_payload
from chasqui_engine.times import stored_ms

_COUNTS = scripts.load("counts")
_FIND_ENTRY = scripts.load("find_entry")
_FIND_DELAYED = scripts.load("find_delayed")
_FIND_EVENTS = scripts.load("find_events")
_MOVE_DELAYED = scripts.load("move_delayed")

_PAGE = 1000
_SCAN_PAGE = 5000
_MOST_SCANS = 10_000


@dataclass(frozen=True, slots=True)
class Standing:
    """A queue's counts at one moment of the server's clock."""

    now_ms: int
    entries: int
    """On the stream: waiting or running."""
    pending: int
    """In the hands of workers."""
    oldest_waiting_ms: int | None
    """When the first job that waits came onto the stream."""
    delayed: int
    first_due_ms: int | None
    """When the first delayed job is, or was, due."""
    dead: int
    repeatables: int
    paused: bool


class ConsumerFacts(NamedTuple):
    """A consumer of a group, as the server knows it."""

    name: str
    pending: int
    idle_ms: int
    """Since it last asked for anything."""


class Entry(NamedTuple):
    """An entry of a stream."""

    entry_id: str
    fields: dict[bytes, bytes]


async def set_paused(link: Link, keys: QueueKeys, paused: bool) -> bool:
    """Pauses or resumes a queue; True if that changed anything."""
    if paused:
        return await link.call("SET", keys.paused, "1", "NX") is not None
    return bool(await link.call("DEL", keys.paused))


async def is_paused(link: Link, keys: QueueKeys) -> bool:
    """Whether workers are to leave the queue alone."""
    return bool(await link.call("EXISTS", keys.paused))


async def exists(link: Link, keys: QueueKeys) -> bool:
    """Whether anything was ever done with the queue: streams stay when they are empty."""
    return bool(await link.call("EXISTS", keys.stream, keys.delayed, keys.dlq, keys.repeat, keys.events, keys.paused))


async def pending_of(link: Link, who: Membership, *, at_most: int) -> list[bytes]:
    """The entries in a consumer's name."""
    try:
        reply = await link.call("XPENDING", who.keys.stream, who.group, "-", "+", at_most, who.consumer)
    except CommandError as err:
        if err.args[0].startswith("NOGROUP"):
            return []
        raise
    return [entry[0] for entry in reply]


async def standing(link: Link, keys: QueueKeys, group: str) -> Standing:
    """Counts of everything the queue holds."""
    used = [keys.stream, keys.delayed, keys.dlq, keys.repeat, keys.paused]
    now_ms, entries, pending, oldest, delayed, first, dead, repeatables, paused = await link.run(_COUNTS, used, [group])
    return Standing(
        now_ms=now_ms,
        entries=entries,
        pending=pending,
        oldest_waiting_ms=int(oldest.partition(b"-")[0]) if oldest else None,
        delayed=delayed,
        first_due_ms=stored_ms(float(first)) if first else None,
        dead=dead,
        repeatables=repeatables,
        paused=bool(paused),
    )


async def consumers(link: Link, keys: QueueKeys, group: str) -> list[ConsumerFacts] | None:
    """Who takes jobs from the queue; None when there is no such group."""
    try:
        reply = await link.call("XINFO", "CONSUMERS", keys.stream, group)
    except CommandError as err:
        if err.args[0].startswith(("NOGROUP", "ERR no such key")):
            return None
        raise
    facts = [dict(zip(found[::2], found[1::2], strict=True)) for found in reply]
    return [ConsumerFacts(_text(one[b"name"]), int(one[b"pending"]), int(one[b"idle"])) for one in facts]


async def last_ids(link: Link, keys: QueueKeys) -> dict[str, tuple[int, int]]:
    """Per key that is a stream: the last id that it gave out."""
    streams = (keys.stream, keys.dlq, keys.events)
    replies = await link.call_many(("XINFO", "STREAM", key) for key in streams)
    found = {}
    for key, reply in zip(streams, replies, strict=True):
        if isinstance(reply, list):
            ms, _, number = _text(dict(zip(reply[::2], reply[1::2], strict=True))[b"last-generated-id"]).partition("-")
            found[key] = (int(ms), int(number))
    return found


async def groups(link: Link, keys: QueueKeys) -> list[str]:
    """The groups that read the queue."""
    try:
        reply = await link.call("XINFO", "GROUPS", keys.stream)
    except CommandError as err:
        if err.args[0].startswith("ERR no such key"):
            return []
        raise
    return [_text(dict(zip(found[::2], found[1::2], strict=True))[b"name"]) for found in reply]


async def pending_entry(link: Link, keys: QueueKeys, group: str, entry_id: str) -> tuple[str, int, int] | None:
    """(consumer, idle ms, deliveries) of an entry that is in a worker's hands."""
    reply = (await link.call_many([("XPENDING", keys.stream, group, entry_id, entry_id, 1)]))[0]
    if type(reply) is ReplyError or not reply:
        return None
    return _text(reply[0][1]), int(reply[0][2]), int(reply[0][3])


async def find_entry(
    link: Link, stream: str, job_id: str, *, newest_first: bool = False, at_most: int | None = None
) -> Entry | None:
    """A job's entry among the first, or the last, `at_most` of a stream, or among all; page by page either way."""
    wanted = encode_payload(job_id)
    command, start, end = ("XREVRANGE", "+", "-") if newest_first else ("XRANGE", "-", "+")
    page = _PAGE if at_most is None else min(_PAGE, at_most)
    for _ in itertools.count() if at_most is None else range(-(-at_most // _PAGE)):
        found = await link.run(_FIND_ENTRY, [stream], [command, start, end, page, wanted])
        if len(found) == 2:
            return Entry(_text(found[0]), dict(zip(found[1][::2], found[1][1::2], strict=True)))
        if not found[0]:
            return None
        start = f"({_text(found[0])}"
    return None


class DelayedLook(NamedTuple):
    """What a look for a delayed job found."""

    found: tuple[bytes, int] | None
    """(member, time in ms) of the job."""
    all_seen: bool
    """Whether the whole set was looked at: a job that was not found is not in it."""


async def look_for_delayed(link: Link, keys: QueueKeys, job_id: str, *, at_most: int) -> DelayedLook:
    """Looks for a delayed job by its index, then among `at_most` members."""
    member = await link.call("GET", keys.delayed_index(job_id))
    if member is not None and (score := await link.call("ZSCORE", keys.delayed, member)) is not None:
        return DelayedLook((member, stored_ms(float(score))), all_seen=False)
    cursor: bytes = b"0"
    for _ in range(-(-at_most // _PAGE)):
        cursor, *found = await link.run(_FIND_DELAYED, [keys.delayed], [cursor, _PAGE, job_id])
        if found:
            return DelayedLook((found[0], stored_ms(float(found[1]))), all_seen=False)
        if cursor == b"0":
            return DelayedLook(None, all_seen=True)
    return DelayedLook(None, all_seen=False)


async def find_delayed(link: Link, keys: QueueKeys, job_id: str, *, at_most: int) -> tuple[bytes, int] | None:
    """(member, time in ms) of a delayed job: by its index, or among `at_most` that are looked at."""
    return (await look_for_delayed(link, keys, job_id, at_most=at_most)).found


async def events_of(link: Link, keys: QueueKeys, job_id: str, *, at_most: int) -> AsyncIterator[dict[str, str]]:
    """The events of a job, the newest first, among the last `at_most` of the queue."""
    start = "+"
    for _ in range(-(-at_most // _PAGE)):
        last, *found = await link.run(_FIND_EVENTS, [keys.events], [start, _PAGE, job_id])
        for fields in found:
            yield {_text(key): _text(value) for key, value in zip(fields[::2], fields[1::2], strict=True)}
        if not last:
            return
        start = f"({_text(last)}"


async def recent_events(link: Link, keys: QueueKeys, since_ms: int, *, at_most: int) -> list[tuple[int, str]]:
    """(time, kind) of the newest events since a time, the newest first."""
    reply = await link.call("XREVRANGE", keys.events, "+", since_ms, "COUNT", at_most)
    return [
        (int(entry[0].partition(b"-")[0]), _text(dict(zip(entry[1][::2], entry[1][1::2], strict=True)).get(b"e", b"")))
        for entry in reply
    ]


async def list_delayed(link: Link, keys: QueueKeys, *, start: int, count: int) -> list[tuple[bytes, int]]:
    """(member, time in ms) of delayed jobs, the next first."""
    reply = await link.call("ZRANGEBYSCORE", keys.delayed, "-inf", "+inf", "WITHSCORES", "LIMIT", start, count)
    return [(member, stored_ms(float(score))) for member, score in zip(reply[::2], reply[1::2], strict=True)]


async def repeatable_lag_ms(link: Link, keys: QueueKeys, now_ms: int) -> int:
    """How overdue the first repeatable is; 0 when none is."""
    first = await link.call("ZRANGE", keys.repeat, 0, 0, "WITHSCORES")
    return max(0, now_ms - stored_ms(float(first[1]))) if first else 0


async def move_delayed(
    link: Link, keys: QueueKeys, job_id: str, member: bytes, run_at_ms: int, *, taken_ttl_s: int
) -> bool:
    """Gives a delayed job another time; True if it was still delayed."""
    used = [keys.delayed, keys.taken(job_id), keys.delayed_index(job_id)]
    return bool(await link.run(_MOVE_DELAYED, used, [member, run_at_ms, taken_ttl_s]))


async def delete_dead(link: Link, keys: QueueKeys, dlq_ids: Sequence[str]) -> int:
    """Deletes dead letters for good; returns how many were there."""
    deleted = 0
    for start in range(0, len(dlq_ids), _PAGE):
        # Sent again, it would count what it had deleted as not there.
        deleted += await link.call("XDEL", keys.dlq, *dlq_ids[start : start + _PAGE], resend=False)
    return deleted


async def queue_names(link: Link) -> list[str]:
    """The queues on this server, or on this node of a Cluster, in alphabetical order; also such that no queue can have.

    Bytes that are no UTF-8 come as lone surrogates.
    """
    found: set[str] = set()
    # Streams and sets only: results and ids would be many.
    for kind in ("stream", "zset"):
        cursor: Any = 0
        for _ in range(_MOST_SCANS):
            cursor, page = await link.call("SCAN", cursor, "MATCH", "{chasqui:*}:*", "COUNT", _SCAN_PAGE, "TYPE", kind)
            named = (key.removeprefix(b"{chasqui:").partition(b"}")[0] for key in page)
            found.update(name.decode(errors="surrogateescape") for name in named)
            if cursor == b"0":
                break
    return sorted(found)


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
