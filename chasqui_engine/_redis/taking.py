"""The way out: entries from the stream to a worker, and whatever ends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chasqui_engine._redis import scripts
from chasqui_engine._redis.connection import LATE_S, Argument, CommandError, Link
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine._redis.replies import ReplyError

_JOIN = scripts.load("join", on_full_server="stream")
_ACTIVE = scripts.load("active", on_full_server="stream")
_PROGRESS = scripts.load("progress", on_full_server="stream")
_ACK = scripts.load("ack", on_full_server="stream")
_RETRY = scripts.load("retry", on_full_server="stream")
_BURY = scripts.load("bury", on_full_server="stream")
_HAND_BACK = scripts.load("hand_back", on_full_server="stream")
_LEAVE = scripts.load("leave", on_full_server="stream")
_HEARTBEAT = scripts.load("heartbeat", on_full_server="stream")
_RECOUNT = scripts.load("recount", on_full_server="stream")
_ORPHANS = scripts.load("orphans", on_full_server="stream")

_PAGE = 500


class Delivery:
    """One entry of the stream in a worker's hands."""

    __slots__ = ("alone", "counted", "deliveries", "entry_id", "envelope", "held_at", "lost", "name", "read_at")

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
        self.alone = False
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
class Membership:
    """Who takes: a consumer of a group on one queue."""

    keys: QueueKeys
    group: str
    consumer: str


class Done(NamedTuple):
    """A job that ran well, to be acked."""

    delivery: Delivery
    job_id: str
    attempt: int
    duration_us: int
    result: bytes | None


class Failed(NamedTuple):
    """A job that failed, to run again."""

    delivery: Delivery
    member: bytes
    """As it goes into the delayed set."""
    backoff_ms: int
    job_id: str
    attempt: int
    error: str
    duration_us: int


class Dead(NamedTuple):
    """A job that will not run again."""

    delivery: Delivery
    reason: str
    detail: str
    job_id: str | None
    """None when it could not be read."""
    attempt: int
    error: str
    duration_us: int | None
    """None when no handler ran."""
    failure: bytes
    """Left for those who wait for its result."""


async def ensure_group(link: Link, who: Membership) -> bool:
    """Makes the group, and the stream, if they are not there; True if it had to."""
    return bool(await link.run(_JOIN, [who.keys.stream], [who.group]))


async def read(
    link: Link,
    who: Membership,
    *,
    counts: Sequence[int],
    block_ms: int,
    read_at: float,
) -> list[list[Delivery]]:
    """New entries: one read for each of `counts`, all in one write; only the first waits until there is something."""
    read: tuple[Argument, ...] = ("XREADGROUP", "GROUP", who.group, who.consumer)
    stream: tuple[Argument, ...] = ("STREAMS", who.keys.stream, ">")
    commands = [(*read, "COUNT", counts[0], "BLOCK", block_ms, *stream)]
    commands += [(*read, "COUNT", count, *stream) for count in counts[1:]]
    # A reply that is lost leaves entries in our name: not read twice, but claimed when they have been idle.
    replies = await link.call_many(commands, timeout_s=block_ms / 1000 + LATE_S)
    if type(replies[0]) is ReplyError:
        raise CommandError(str(replies[0]))
    return [_deliveries(reply[0][1], read_at) if isinstance(reply, list) and reply else [] for reply in replies]


async def idle(link: Link, who: Membership, min_idle_ms: int) -> list[Pending]:
    """Every entry of any consumer that has been idle for so long by the server's clock."""
    found: list[Pending] = []
    start: bytes = b"-"
    while True:
        command = ("XPENDING", who.keys.stream, who.group, "IDLE", min_idle_ms, start, "+", _PAGE)
        page = [Pending(*row) for row in await link.call(*command)]
        found += page
        if len(page) < _PAGE:
            return found
        start = b"(" + page[-1].entry_id


async def claim(
    link: Link, who: Membership, entries: Sequence[Pending], *, min_idle_ms: int, read_at: float
) -> list[Delivery]:
    """Takes entries over, as far as they are still idle."""
    ids = [entry.entry_id for entry in entries]
    reply = await link.call("XCLAIM", who.keys.stream, who.group, who.consumer, min_idle_ms, *ids)
    # Redis 6.2 gives an entry that was deleted meanwhile as nil.
    deliveries = _deliveries([entry for entry in reply if entry and entry[1] is not None], read_at)
    before = {entry.entry_id: entry.deliveries for entry in entries}
    for delivery in deliveries:
        delivery.deliveries = before[delivery.entry_id]
    return deliveries


def _deliveries(entries: list[Any], read_at: float) -> list[Delivery]:
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


async def tell_active(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, str, int]], *, events_max: int) -> None:
    """Says that (id, name, attempt) have started."""
    args: list[Argument] = [events_max]
    for job in jobs:
        args += job
    await link.run(_ACTIVE, [keys.events], args, resend=False)


async def tell_progress(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, str, str]], *, events_max: int) -> None:
    """Says how far (id, name, progress) are."""
    args: list[Argument] = [events_max]
    for job in jobs:
        args += job
    await link.run(_PROGRESS, [keys.events], args, resend=False)


async def ack(link: Link, who: Membership, done: Sequence[Done], *, events_max: int, result_ttl_s: int) -> list[bytes]:
    """Ends jobs that ran well; returns the entries that were another's by then. `result_ttl_s` 0 keeps no results."""
    used = [who.keys.stream, who.keys.events]
    args: list[Argument] = [*_member(link, who), events_max, result_ttl_s]
    for one in done:
        args.append(one.delivery.entry_id)
        if events_max:
            args += (one.job_id, one.delivery.name, one.attempt, one.duration_us)
        if result_ttl_s:
            used.append(who.keys.result(one.job_id))
            args.append(one.result or b"")
    lost: list[bytes] = await link.run(_ACK, used, args)
    return lost


async def retry(link: Link, who: Membership, failed: Sequence[Failed], *, events_max: int) -> list[int]:
    """Sends jobs to the delayed set; per job 1 (moved), 0 (another's by then) or -1 (server full)."""
    args: list[Argument] = [*_member(link, who), events_max]
    for one in failed:
        args += (one.delivery.entry_id, one.member, one.backoff_ms, one.job_id, one.delivery.name, one.attempt)
        args += (one.error, one.duration_us)
    reply: list[int] = await link.run(_RETRY, [who.keys.stream, who.keys.delayed, who.keys.events], args)
    return reply


async def bury(
    link: Link, who: Membership, dead: Sequence[Dead], *, events_max: int, dlq_max: int, failure_ttl_s: int
) -> list[int]:
    """Sends jobs to the dead letters; per job 1 (buried), 0 (another's by then), -1 (server full), -2 (no id left)."""
    used = [who.keys.stream, who.keys.dlq, who.keys.events]
    args: list[Argument] = [*_member(link, who), events_max, dlq_max, failure_ttl_s]
    for one in dead:
        index = 0
        if one.job_id is not None:
            used.append(who.keys.failure(one.job_id))
            index = len(used)
        duration = "" if one.duration_us is None else one.duration_us
        delivery = one.delivery
        args += (delivery.entry_id, delivery.envelope or b"", delivery.name, one.reason, one.detail, one.job_id or "")
        args += (one.attempt, one.error, duration, one.failure, index)
    reply: list[int] = await link.run(_BURY, used, args)
    return reply


async def heartbeat(link: Link, who: Membership, entry_ids: Sequence[bytes]) -> list[bytes]:
    """Keeps entries ours; returns those that are not any more."""
    lost: list[bytes] = []
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        lost += await link.run(_HEARTBEAT, [who.keys.stream], [who.group, who.consumer, *page])
    return lost


async def orphans(link: Link, who: Membership) -> list[bytes]:
    """Entries that were given out and that nobody has; some of them, if they are many."""
    found: list[bytes] = await link.run(_ORPHANS, [who.keys.stream], [who.group, _PAGE])
    return found


async def recount(link: Link, who: Membership, counts: Sequence[tuple[bytes, int]]) -> list[bytes]:
    """Sets how often entries count as given out; returns those that are not ours any more."""
    lost: list[bytes] = []
    for start in range(0, len(counts), _PAGE):
        args: list[Argument] = [who.group, who.consumer]
        for one in counts[start : start + _PAGE]:
            args += one
        lost += await link.run(_RECOUNT, [who.keys.stream], args)
    return lost


async def hand_back(link: Link, who: Membership, entry_ids: Sequence[bytes]) -> int:
    """Puts entries back on the stream for others; returns how many."""
    count = 0
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        count += await link.run(_HAND_BACK, [who.keys.stream], [*_member(link, who), *page])
    return count


async def leave(link: Link, who: Membership) -> int:
    """Hands back whatever is still in this consumer's name, then removes it from the group; returns how many."""
    count = 0
    while held := await link.run(_LEAVE, [who.keys.stream], [who.group, who.consumer, _PAGE]):
        count += await hand_back(link, who, held)
    return count


def _member(link: Link, who: Membership) -> tuple[str, str, int]:
    return who.group, who.consumer, int(link.capabilities.ackdel)
