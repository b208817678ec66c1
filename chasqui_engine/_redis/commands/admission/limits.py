"""Commands on the limits of a queue: set and read them, and read entries within them."""

from __future__ import annotations

from typing import NamedTuple

from chasqui_engine._redis.client.link import Argument, Link
from chasqui_engine._redis.client.replies import decode_text
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.group import Delivery, GroupMember, read_deliveries
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.limits import UNLIMITED, QueueLimits

_SET = scripts.load("limits/set")
_TAKE = scripts.load("limits/take", on_full_server="stream")
_MOST_DIGITS = 15
_FIELDS = ("rate_max", "rate_ms", "concurrency")


async def set_limits(link: Link, keys: QueueKeys, limits: QueueLimits) -> bool:
    """Sets limits in place of those before; True if there were any."""
    args: list[Argument] = []
    if limits.rate is not None:
        args += ("rate_max", limits.rate[0], "rate_ms", max(1, round(limits.rate[1] * 1000)))
    if limits.concurrency is not None:
        args += ("concurrency", limits.concurrency)
    return bool(await link.run(_SET, [keys.limits, keys.limiter], args))


async def get_limits(link: Link, keys: QueueKeys) -> QueueLimits:
    """The limits of a queue."""
    found = await link.call("HMGET", keys.limits, *_FIELDS)
    rate_max, rate_ms, concurrency = map(_read_number, found)
    rate = (rate_max, rate_ms / 1000) if rate_max and rate_ms else None
    try:
        return QueueLimits(rate, concurrency) if rate or concurrency else UNLIMITED
    except ConfigError:
        return UNLIMITED


def _read_number(text: bytes | None) -> int | None:
    # Any program can write anything there.
    return int(text) or None if text is not None and text.isdigit() and len(text) <= _MOST_DIGITS else None


class Taken(NamedTuple):
    """What a read within the limits gave."""

    deliveries: list[Delivery]
    why_none: str
    """`rate`, `slots` or `empty`; empty if there are some."""
    wait_ms: int
    """Until the rate allows another."""
    last: str
    """The last entry that the group was given before."""


async def take(link: Link, member: GroupMember, count: int, *, read_at: float, events_max: int, tell: bool) -> Taken:
    """Reads up to `count` entries; `tell` emits that the rate keeps it from reading any."""
    keys = member.keys
    used = [keys.stream, keys.limits, keys.limiter, keys.delayed, keys.prio, keys.prio_jobs, keys.events]
    # A lost reply leaves entries in our name: they are claimed once they were idle long enough.
    why_none, wait_ms, last, *entries = await link.run(
        _TAKE, used, [member.group, member.consumer, count, events_max, int(tell)], resend=False
    )
    return Taken(read_deliveries(entries, read_at), decode_text(why_none), wait_ms, decode_text(last))


async def wait_for_entry(reads: Link, keys: QueueKeys, after: str, block_ms: int) -> None:
    """Waits until there is an entry after that one, or for so long; takes none."""
    await reads.call("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", keys.stream, after)
