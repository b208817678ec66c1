"""Looking through what a queue holds, page by page: jobs that wait or run, dead letters, and the newest events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from chasqui_engine._redis.connection import CommandError, Link
from chasqui_engine._redis.inspecting import Entry
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine._redis.replies import ReplyError


class Pending(NamedTuple):
    """An entry in a worker's hands."""

    entry_id: str
    consumer: str
    idle_ms: int
    deliveries: int


async def waiting(link: Link, keys: QueueKeys, group: str, *, after: str | None, count: int) -> list[Entry]:
    """Entries that no worker of the group has taken yet, the next to run first; from after one of them on, or all."""
    start = after or await _last_delivered(link, keys, group)
    reply = await link.call("XRANGE", keys.stream, f"({start}" if start else "-", "+", "COUNT", count)
    return [_entry(found) for found in reply]


async def _last_delivered(link: Link, keys: QueueKeys, group: str) -> str | None:
    try:
        reply = await link.call("XINFO", "GROUPS", keys.stream)
    except CommandError as err:
        if err.args[0].startswith("ERR no such key"):
            return None
        raise
    for found in reply:
        facts = dict(zip(found[::2], found[1::2], strict=True))
        if _text(facts[b"name"]) == group:
            return _text(facts[b"last-delivered-id"])
    return None


async def pending(link: Link, keys: QueueKeys, group: str, *, count: int) -> list[Pending]:
    """What the group's workers hold, the oldest first."""
    try:
        reply = await link.call("XPENDING", keys.stream, group, "-", "+", count)
    except CommandError as err:
        if err.args[0].startswith("NOGROUP"):
            return []
        raise
    return [Pending(_text(one[0]), _text(one[1]), int(one[2]), int(one[3])) for one in reply]


async def entries(link: Link, stream: str, entry_ids: Sequence[str]) -> list[Entry | None]:
    """These entries of a stream, None for each that is not there."""
    replies = await link.call_many(("XRANGE", stream, entry_id, entry_id) for entry_id in entry_ids)
    return [_entry(found[0]) if type(found) is not ReplyError and found else None for found in replies]


async def newest_events(
    link: Link, keys: QueueKeys, *, after: str, before: str | None = None, count: int
) -> list[tuple[str, dict[str, str]]]:
    """Events after one id, and before another if it is given; the newest first."""
    end = "+" if before is None else f"({before}"
    reply = await link.call("XREVRANGE", keys.events, end, f"({after}", "COUNT", count)
    return [
        (entry.entry_id, {_text(key): _text(value) for key, value in entry.fields.items()})
        for entry in map(_entry, reply)
    ]


def _entry(found: list[Any]) -> Entry:
    # An entry deleted while it is pending has no fields.
    fields = found[1] or []
    return Entry(_text(found[0]), dict(zip(fields[::2], fields[1::2], strict=True)))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
