"""Commands that describe a queue: its counts, consumers and groups, and whether it is paused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import Argument, CommandError, Link
from chasqui_engine._redis.client.replies import ReplyError, decode_text, text_fields
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.durations import stored_ms
from chasqui_engine.values.stream_ids import ms_of

_STATS = scripts.load("stats/read")
_RECORD = scripts.load("tally/record")
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
MINUTES_KEPT_S = 26 * HOUR_S
HOURS_KEPT_S = 29 * DAY_S
_MOST_FIELDS = 4_000
"""Of one hash of counts."""
_SCAN_PAGE = 5000
_MOST_SCANS = 10_000


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A queue's counts at one moment of the server's clock."""

    now_ms: int
    entries: int
    """On the stream: waiting or running."""
    pending: int
    """In flight."""
    oldest_waiting_ms: int | None
    """When the oldest waiting job was added to the stream."""
    delayed: int
    first_due_ms: int | None
    """When the first delayed job is, or was, due."""
    dead: int
    repeatables: int
    first_fire_ms: int | None
    """When the first repeatable is, or was, to fire."""
    paused: bool
    prioritized: int
    """Of the delayed ones, those that wait for their priority's turn."""


class Flags(NamedTuple):
    """What workers keep looking at."""

    paused: bool
    with_headers: bool
    """Whether jobs may have headers that are not in their entries."""
    with_priorities: bool
    """Whether jobs may wait beside the stream."""
    with_aborts: bool
    """Whether there are jobs in flight that are to be aborted."""
    limited: bool
    """Whether there are limits to keep to."""
    refused: str
    """Why one of these could not be read; empty if all were."""


class ConsumerStats(NamedTuple):
    """A consumer of a group, as the server knows it."""

    name: str
    pending: int
    idle_ms: int
    """Time since its last command."""


async def set_paused(link: Link, keys: QueueKeys, paused: bool) -> bool:
    """Pauses or resumes a queue; True if that changed anything."""
    if paused:
        return await link.call("SET", keys.paused, "1", "NX") is not None
    return bool(await link.call("DEL", keys.paused))


async def is_paused(link: Link, keys: QueueKeys) -> bool:
    """Whether the queue is paused."""
    return bool(await link.call("EXISTS", keys.paused))


async def read_flags(link: Link, keys: QueueKeys) -> Flags:
    """What a worker has to know of the queue, several times a second."""
    looked_at = (keys.paused, keys.uses, keys.prio, keys.aborts, keys.limits)
    replies = await link.call_many(("EXISTS", key) for key in looked_at)
    # One that the user may not read, by the ACL of an older version, say, is taken for absent: it hides no other.
    refused = [reply for reply in replies if type(reply) is ReplyError]
    paused, headers, priorities, aborts, limited = (type(reply) is int and reply > 0 for reply in replies)
    return Flags(paused, headers, priorities, aborts, limited, refused=str(refused[0]) if refused else "")


async def exists(link: Link, keys: QueueKeys) -> bool:
    """Whether the queue was ever used: empty streams remain."""
    return bool(await link.call("EXISTS", keys.stream, keys.delayed, keys.dlq, keys.repeat, keys.events, keys.paused))


async def read_stats(link: Link, keys: QueueKeys, group: str) -> QueueStats:
    """Counts of everything the queue holds."""
    used = [keys.stream, keys.delayed, keys.dlq, keys.repeat, keys.paused, keys.prio]
    now_ms, entries, pending, oldest, delayed, first, dead, repeatables, first_fire, paused, staged = await link.run(
        _STATS, used, [group]
    )
    return QueueStats(
        now_ms=now_ms,
        entries=entries,
        pending=pending,
        oldest_waiting_ms=ms_of(decode_text(oldest)) if oldest else None,
        delayed=delayed,
        first_due_ms=stored_ms(float(first)) if first else None,
        dead=dead,
        repeatables=repeatables,
        first_fire_ms=stored_ms(float(first_fire)) if first_fire else None,
        paused=bool(paused),
        # A promoter of ChasquiMQ leaves the rank of what it moves.
        prioritized=min(staged, delayed),
    )


async def record_tally(link: Link, member: GroupMember, fields: Mapping[str, int], *, at_s: int) -> None:
    """Adds to the counts of that minute and hour, and notes how deep the queue is."""
    keys = member.keys
    used = [keys.tally("minute", at_s // HOUR_S), keys.tally("hour", at_s // DAY_S), keys.stream, keys.delayed]
    args: list[Argument] = [at_s % HOUR_S // MINUTE_S, at_s % DAY_S // HOUR_S]
    args += [MINUTES_KEPT_S, HOURS_KEPT_S, _MOST_FIELDS, member.group]
    for name, number in fields.items():
        args += (name, number)
    await link.run(_RECORD, used, args, resend=False)


async def read_tallies(link: Link, keys: QueueKeys, grain: str, parts: Sequence[int]) -> list[dict[str, str]]:
    """The counts of each of these hours, by the minute, or of these days, by the hour."""
    replies = await link.call_many(("HGETALL", keys.tally(grain, part)) for part in parts)
    for reply in replies:
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
    return [text_fields(reply) for reply in replies]


async def list_consumers(link: Link, keys: QueueKeys, group: str) -> list[ConsumerStats] | None:
    """The consumers of the group; None if there is no such group."""
    try:
        reply = await link.call("XINFO", "CONSUMERS", keys.stream, group)
    except CommandError as err:
        if err.args[0].startswith(("NOGROUP", "ERR no such key")):
            return None
        raise
    facts = [dict(zip(found[::2], found[1::2], strict=True)) for found in reply]
    return [ConsumerStats(decode_text(one[b"name"]), int(one[b"pending"]), int(one[b"idle"])) for one in facts]


async def read_last_ids(link: Link, keys: QueueKeys) -> dict[str, tuple[int, int]]:
    """The last id of each key that is a stream."""
    streams = (keys.stream, keys.dlq, keys.events)
    replies = await link.call_many(("XINFO", "STREAM", key) for key in streams)
    found = {}
    for key, reply in zip(streams, replies, strict=True):
        if isinstance(reply, list):
            ms, _, number = decode_text(
                dict(zip(reply[::2], reply[1::2], strict=True))[b"last-generated-id"]
            ).partition("-")
            found[key] = (int(ms), int(number))
    return found


async def list_groups(link: Link, keys: QueueKeys) -> list[str]:
    """The groups that read the queue."""
    try:
        reply = await link.call("XINFO", "GROUPS", keys.stream)
    except CommandError as err:
        if err.args[0].startswith("ERR no such key"):
            return []
        raise
    return [decode_text(dict(zip(found[::2], found[1::2], strict=True))[b"name"]) for found in reply]


async def list_queue_names(link: Link) -> list[str]:
    """The queues on this server, or on this node of a Cluster, in alphabetical order, invalid names included.

    Bytes that are not UTF-8 become lone surrogates.
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
