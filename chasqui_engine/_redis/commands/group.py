"""Commands of the consumer group: create it, read, claim, heartbeat, release, remove a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import LATE_S, Argument, CommandError, Link
from chasqui_engine._redis.client.replies import ReplyError, decode_text
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys

_CREATE = scripts.load("group/create", on_full_server="stream")
_RELEASE = scripts.load("group/release", on_full_server="stream")
_REMOVE_CONSUMER = scripts.load("group/remove_consumer", on_full_server="stream")
_HEARTBEAT = scripts.load("group/heartbeat", on_full_server="stream")
_SET_DELIVERY_COUNTS = scripts.load("group/set_delivery_counts", on_full_server="stream")
_LIST_ORPHANS = scripts.load("group/list_orphans", on_full_server="stream")
_PAGE = 500


class Delivery:
    """One entry of the stream in a worker's hands."""

    __slots__ = ("counted", "deliveries", "entry_id", "envelope", "held_at", "lost", "name", "quarantined", "read_at")

    def __init__(self, entry_id: bytes, envelope: bytes | None, name: str, deliveries: int, read_at: float) -> None:
        self.entry_id = entry_id
        self.envelope = envelope
        """None when the entry has no field `d`."""
        self.name = name
        self.deliveries = deliveries
        """How often it was given to a worker before this time."""
        self.read_at = read_at
        """Monotonic seconds when it was asked for: it became ours then, or later."""
        self.held_at = float("inf")
        """Monotonic seconds since when heartbeats cover it."""
        self.lost = False
        """Another worker has it now."""
        self.quarantined = False
        """It may be what silences workers: no other such entry is to be out with it."""
        self.counted = False
        """The run that is to begin with it, or has, is one that counts before it begins."""

    @property
    def count(self) -> int:
        """What the server is to have as the number of deliveries, were this worker to go silent now."""
        return max(1, self.deliveries) + self.counted


class Pending(NamedTuple):
    """One entry that some consumer has."""

    entry_id: bytes
    consumer: bytes
    idle_ms: int
    """By the server's clock."""
    deliveries: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """Who takes: a consumer of a group on one queue."""

    keys: QueueKeys
    group: str
    consumer: str


async def ensure_group(link: Link, member: GroupMember) -> bool:
    """Makes the group, and the stream, if they are not there; True if it had to."""
    return bool(await link.run(_CREATE, [member.keys.stream], [member.group]))


async def read(
    link: Link,
    member: GroupMember,
    *,
    counts: Sequence[int],
    block_ms: int,
    read_at: float,
) -> list[list[Delivery]]:
    """New entries: one read for each of `counts`, all in one write; only the first waits until there is something."""
    read: tuple[Argument, ...] = ("XREADGROUP", "GROUP", member.group, member.consumer)
    stream: tuple[Argument, ...] = ("STREAMS", member.keys.stream, ">")
    commands = [(*read, "COUNT", counts[0], "BLOCK", block_ms, *stream)]
    commands += [(*read, "COUNT", count, *stream) for count in counts[1:]]
    # A reply that is lost leaves entries in our name: not read twice, but claimed when they have been idle.
    replies = await link.call_many(commands, timeout_s=block_ms / 1000 + LATE_S)
    if type(replies[0]) is ReplyError:
        raise CommandError(str(replies[0]))
    return [_read_deliveries(reply[0][1], read_at) if isinstance(reply, list) and reply else [] for reply in replies]


async def list_idle(link: Link, member: GroupMember, min_idle_ms: int) -> list[Pending]:
    """Every entry of any consumer that has been idle for so long by the server's clock."""
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
    """Takes entries over, as far as they are still idle."""
    ids = [entry.entry_id for entry in entries]
    reply = await link.call("XCLAIM", member.keys.stream, member.group, member.consumer, min_idle_ms, *ids)
    # Redis 6.2 gives an entry that was deleted meanwhile as nil.
    deliveries = _read_deliveries([entry for entry in reply if entry and entry[1] is not None], read_at)
    before = {entry.entry_id: entry.deliveries for entry in entries}
    for delivery in deliveries:
        delivery.deliveries = before[delivery.entry_id]
    return deliveries


def _read_deliveries(entries: list[Any], read_at: float) -> list[Delivery]:
    out = []
    for entry in entries:
        fields = entry[1]
        # As every producer writes them; any other order, and fields of others, are as good.
        if len(fields) == 4 and fields[0] == b"d" and fields[2] == b"n":
            out.append(Delivery(entry[0], fields[1], fields[3].decode(errors="replace"), 0, read_at))
        elif len(fields) == 2 and fields[0] == b"d":
            out.append(Delivery(entry[0], fields[1], "", 0, read_at))
        else:
            named = dict(zip(fields[::2], fields[1::2], strict=True))
            name = named.get(b"n", b"").decode(errors="replace")
            out.append(Delivery(entry[0], named.get(b"d"), name, 0, read_at))
    return out


async def heartbeat(link: Link, member: GroupMember, entry_ids: Sequence[bytes]) -> list[bytes]:
    """Keeps entries ours; returns those that are not any more."""
    lost: list[bytes] = []
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        lost += await link.run(_HEARTBEAT, [member.keys.stream], [member.group, member.consumer, *page])
    return lost


async def list_orphans(link: Link, member: GroupMember) -> list[bytes]:
    """Entries that were delivered and that no consumer has; some of them, if they are many."""
    found: list[bytes] = await link.run(_LIST_ORPHANS, [member.keys.stream], [member.group, _PAGE])
    return found


async def set_delivery_counts(link: Link, member: GroupMember, counts: Sequence[tuple[bytes, int]]) -> list[bytes]:
    """Sets how often entries count as given out; returns those that are not ours any more."""
    lost: list[bytes] = []
    for start in range(0, len(counts), _PAGE):
        args: list[Argument] = [member.group, member.consumer]
        for one in counts[start : start + _PAGE]:
            args += one
        lost += await link.run(_SET_DELIVERY_COUNTS, [member.keys.stream], args)
    return lost


async def release(link: Link, member: GroupMember, entry_ids: Sequence[bytes]) -> int:
    """Puts entries back on the stream for others; returns how many."""
    count = 0
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        count += await link.run(_RELEASE, [member.keys.stream], [*_member_args(link, member), *page])
    return count


async def remove_consumer(link: Link, member: GroupMember) -> int:
    """Hands back whatever is still in this consumer's name, then removes it from the group; returns how many."""
    count = 0
    while held := await link.run(_REMOVE_CONSUMER, [member.keys.stream], [member.group, member.consumer, _PAGE]):
        count += await release(link, member, held)
    return count


def _member_args(link: Link, member: GroupMember) -> tuple[str, str, int]:
    return member.group, member.consumer, int(link.capabilities.ackdel)


class PendingEntry(NamedTuple):
    """An entry in a worker's hands."""

    entry_id: str
    consumer: str
    idle_ms: int
    deliveries: int


async def list_pending(
    link: Link, keys: QueueKeys, group: str, *, count: int, after: str | None = None
) -> list[PendingEntry]:
    """What the group's workers hold, the oldest first; from after one of the entries on, or all."""
    try:
        reply = await link.call("XPENDING", keys.stream, group, f"({after}" if after else "-", "+", count)
    except CommandError as err:
        if err.args[0].startswith("NOGROUP"):
            return []
        raise
    return [PendingEntry(decode_text(one[0]), decode_text(one[1]), int(one[2]), int(one[3])) for one in reply]


async def list_pending_of(link: Link, member: GroupMember, *, at_most: int) -> list[bytes]:
    """The entries in a consumer's name."""
    try:
        reply = await link.call("XPENDING", member.keys.stream, member.group, "-", "+", at_most, member.consumer)
    except CommandError as err:
        if err.args[0].startswith("NOGROUP"):
            return []
        raise
    return [entry[0] for entry in reply]


async def find_pending(link: Link, keys: QueueKeys, group: str, entry_id: str) -> tuple[str, int, int] | None:
    """(consumer, idle ms, deliveries) of an entry that is in a worker's hands."""
    reply = (await link.call_many([("XPENDING", keys.stream, group, entry_id, entry_id, 1)]))[0]
    if type(reply) is ReplyError or not reply:
        return None
    return decode_text(reply[0][1]), int(reply[0][2]), int(reply[0][3])
