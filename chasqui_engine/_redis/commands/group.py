"""Commands of the consumer group: create it, read, claim, heartbeat, release, remove a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import LATE_S, Argument, CommandError, Link
from chasqui_engine._redis.client.replies import ReplyError, decode_text
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.job import MOST_PRIORITY, Job

_CREATE = scripts.load("group/create", on_full_server="stream")
_RELEASE = scripts.load("group/release", on_full_server="stream")
_REMOVE_CONSUMER = scripts.load("group/remove_consumer", on_full_server="stream")
_HEARTBEAT = scripts.load("group/heartbeat", on_full_server="stream")
_SET_DELIVERY_COUNTS = scripts.load("group/set_delivery_counts", on_full_server="stream")
_LIST_ORPHANS = scripts.load("group/list_orphans", on_full_server="stream")
_FIND_WORK = scripts.load("group/find_work")
_PAGE = 500
_PRIORITY_DIGITS = len(str(MOST_PRIORITY))


class Delivery:
    """One entry delivered to a worker."""

    __slots__ = (
        "aborting",
        "counted",
        "deliveries",
        "entry_id",
        "envelope",
        "headers",
        "held_at",
        "lost",
        "name",
        "priority",
        "quarantined",
        "read_at",
        "run",
    )

    def __init__(
        self, entry_id: bytes, envelope: bytes | None, name: str, deliveries: int, read_at: float, headers: bytes = b""
    ) -> None:
        self.entry_id = entry_id
        self.envelope = envelope
        """None when the entry has no field `d`."""
        self.name = name
        self.deliveries = deliveries
        """How often it was delivered before."""
        self.read_at = read_at
        """Monotonic seconds when it was requested: it became ours then or later."""
        self.headers = headers
        """As they are stored; empty if it has none."""
        self.priority = 0
        """As it was added with; 0 is none."""
        self.held_at = float("inf")
        """Monotonic seconds since when heartbeats cover it."""
        self.lost = False
        """Whether another worker owns it now."""
        self.quarantined = False
        """Whether it may kill its worker: no other such entry runs at the same time."""
        self.counted = False
        """Whether its run is counted before it begins."""
        self.aborting = False
        """Whether its job is to be aborted, and may not begin."""
        self.run: tuple[asyncio.Task[Any] | None, Job] | None = None
        """While its handler runs: the task that runs it, and its job."""

    @property
    def count(self) -> int:
        """The delivery count to leave on the server if this worker goes silent now."""
        return max(1, self.deliveries) + self.counted


class Pending(NamedTuple):
    """One pending entry of some consumer."""

    entry_id: bytes
    consumer: bytes
    idle_ms: int
    """By the server's clock."""
    deliveries: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """The reader: a consumer of a group on one queue."""

    keys: QueueKeys
    group: str
    consumer: str


async def ensure_group(link: Link, member: GroupMember) -> bool:
    """Creates the group and the stream if they do not exist; True if it created the group."""
    return bool(await link.run(_CREATE, [member.keys.stream], [member.group]))


async def read(
    link: Link,
    member: GroupMember,
    *,
    counts: Sequence[int],
    block_ms: int,
    read_at: float,
) -> list[list[Delivery]]:
    """Reads new entries: one read per item of `counts`, all in one write; only the first one blocks."""
    read: tuple[Argument, ...] = ("XREADGROUP", "GROUP", member.group, member.consumer)
    stream: tuple[Argument, ...] = ("STREAMS", member.keys.stream, ">")
    commands = [(*read, "COUNT", counts[0], "BLOCK", block_ms, *stream)]
    commands += [(*read, "COUNT", count, *stream) for count in counts[1:]]
    # A lost reply leaves entries in our name: they are claimed once they were idle long enough.
    replies = await link.call_many(commands, timeout_s=block_ms / 1000 + LATE_S)
    if type(replies[0]) is ReplyError:
        raise CommandError(str(replies[0]))
    return [read_deliveries(reply[0][1], read_at) if isinstance(reply, list) and reply else [] for reply in replies]


async def list_idle(link: Link, member: GroupMember, min_idle_ms: int) -> list[Pending]:
    """All pending entries of all consumers that were idle this long by the server's clock."""
    found: list[Pending] = []
    start: bytes = b"-"
    while True:
        command = ("XPENDING", member.keys.stream, member.group, "IDLE", min_idle_ms, start, "+", _PAGE)
        page = [Pending(*row) for row in await link.call(*command)]
        found += page
        if len(page) < _PAGE:
            return found
        start = b"(" + page[-1].entry_id


async def claim(
    link: Link, member: GroupMember, entries: Sequence[Pending], *, min_idle_ms: int, read_at: float
) -> list[Delivery]:
    """Claims entries that are still idle."""
    ids = [entry.entry_id for entry in entries]
    reply = await link.call("XCLAIM", member.keys.stream, member.group, member.consumer, min_idle_ms, *ids)
    # Redis 6.2 returns nil for an entry that was deleted in the meantime.
    deliveries = read_deliveries([entry for entry in reply if entry and entry[1] is not None], read_at)
    before = {entry.entry_id: entry.deliveries for entry in entries}
    for delivery in deliveries:
        delivery.deliveries = before[delivery.entry_id]
    return deliveries


def read_deliveries(entries: list[Any], read_at: float) -> list[Delivery]:
    """The deliveries in a reply."""
    out = []
    for entry in entries:
        fields = entry[1]
        # The order that every producer writes; other orders and unknown fields are accepted too.
        if len(fields) == 4 and fields[0] == b"d" and fields[2] == b"n":
            out.append(Delivery(entry[0], fields[1], fields[3].decode(errors="replace"), 0, read_at))
        elif len(fields) == 2 and fields[0] == b"d":
            out.append(Delivery(entry[0], fields[1], "", 0, read_at))
        else:
            named = dict(zip(fields[::2], fields[1::2], strict=True))
            name = named.get(b"n", b"").decode(errors="replace")
            delivery = Delivery(entry[0], named.get(b"d"), name, 0, read_at, named.get(b"h", b""))
            delivery.priority = _read_priority(named.get(b"p", b"0"))
            out.append(delivery)
    return out


def _read_priority(text: bytes) -> int:
    # Any program can write anything there.
    return min(int(text), MOST_PRIORITY) if text.isdigit() and len(text) <= _PRIORITY_DIGITS else 0


async def heartbeat(link: Link, member: GroupMember, entry_ids: Sequence[bytes]) -> list[bytes]:
    """Renews the lease of entries; returns those that are no longer ours."""
    lost: list[bytes] = []
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        lost += await link.run(_HEARTBEAT, [member.keys.stream], [member.group, member.consumer, *page])
    return lost


async def list_orphans(link: Link, member: GroupMember) -> list[bytes]:
    """Entries that were delivered but have no consumer; a limited number of them."""
    found: list[bytes] = await link.run(_LIST_ORPHANS, [member.keys.stream], [member.group, _PAGE])
    return found


async def set_delivery_counts(link: Link, member: GroupMember, counts: Sequence[tuple[bytes, int]]) -> list[bytes]:
    """Sets the delivery counts of entries; returns those that are no longer ours."""
    lost: list[bytes] = []
    for start in range(0, len(counts), _PAGE):
        args: list[Argument] = [member.group, member.consumer]
        for one in counts[start : start + _PAGE]:
            args += one
        lost += await link.run(_SET_DELIVERY_COUNTS, [member.keys.stream], args)
    return lost


class Work(NamedTuple):
    """Whether there is anything to do for a consumer."""

    waiting: bool
    in_flight: bool
    """Delivered to this consumer, and not settled."""
    due: bool
    """A delayed job."""
    to_fire: bool
    """A repeatable."""


async def find_work(link: Link, member: GroupMember, *, delayed: bool, repeatables: bool) -> Work:
    """What there is to do for the consumer; without what is delayed, or repeatable, if it does not care for that."""
    keys = member.keys
    used = [keys.stream, keys.delayed, keys.repeat, keys.prio]
    reply = await link.run(_FIND_WORK, used, [member.group, member.consumer])
    waiting, in_flight, due, to_fire = map(bool, reply)
    return Work(waiting, in_flight, due and delayed, to_fire and repeatables)


async def release(link: Link, member: GroupMember, entry_ids: Sequence[bytes]) -> int:
    """Releases entries to the stream; returns how many."""
    count, used = 0, [member.keys.stream, member.keys.aborts]
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        count += await link.run(_RELEASE, used, [*_member_args(link, member), *page])
    return count


async def remove_consumer(link: Link, member: GroupMember) -> int:
    """Releases everything still in this consumer's name and removes it from the group; returns how many."""
    count = 0
    while held := await link.run(_REMOVE_CONSUMER, [member.keys.stream], [member.group, member.consumer, _PAGE]):
        count += await release(link, member, held)
    return count


def _member_args(link: Link, member: GroupMember) -> tuple[str, str, int]:
    return member.group, member.consumer, int(link.capabilities.ackdel)


class PendingEntry(NamedTuple):
    """An entry in flight."""

    entry_id: str
    consumer: str
    idle_ms: int
    deliveries: int


async def list_pending(
    link: Link, keys: QueueKeys, group: str, *, count: int, after: str | None = None
) -> list[PendingEntry]:
    """The entries in flight in the group, oldest first; after a given one, or all."""
    try:
        reply = await link.call("XPENDING", keys.stream, group, f"({after}" if after else "-", "+", count)
    except CommandError as err:
        if err.args[0].startswith("NOGROUP"):
            return []
        raise
    return [PendingEntry(decode_text(one[0]), decode_text(one[1]), int(one[2]), int(one[3])) for one in reply]


async def list_pending_of(link: Link, member: GroupMember, *, at_most: int) -> list[bytes]:
    """The pending entries of a consumer."""
    try:
        reply = await link.call("XPENDING", member.keys.stream, member.group, "-", "+", at_most, member.consumer)
    except CommandError as err:
        if err.args[0].startswith("NOGROUP"):
            return []
        raise
    return [entry[0] for entry in reply]


async def find_pending(link: Link, keys: QueueKeys, group: str, entry_id: str) -> tuple[str, int, int] | None:
    """(consumer, idle ms, deliveries) of an entry in flight."""
    reply = (await link.call_many([("XPENDING", keys.stream, group, entry_id, entry_id, 1)]))[0]
    if type(reply) is ReplyError or not reply:
        return None
    return decode_text(reply[0][1]), int(reply[0][2]), int(reply[0][3])
