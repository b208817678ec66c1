"""Commands on the registry of a queue's workers: each keeps an entry there while it lives."""

from __future__ import annotations

import re
from typing import NamedTuple

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.client.replies import decode_text
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys

_BEAT = scripts.load("workers/beat", on_full_server="hash")
KEPT_S = 3600
"""How long a worker that went silent is remembered."""
_ENTRY = re.compile(r"([0-9]{1,15}) (.*)", re.DOTALL)


class Registered(NamedTuple):
    """A worker's entry."""

    name: str
    idle_ms: int
    """Since its last beat, by the server's clock."""
    facts: str
    """What it said of itself, as JSON."""


async def beat(link: Link, keys: QueueKeys, name: str, facts: str, *, first: bool) -> None:
    """Says that a worker is alive."""
    await link.run(_BEAT, [keys.workers], [name, facts, KEPT_S, int(first)])


async def leave(link: Link, keys: QueueKeys, name: str) -> None:
    """Removes the entry of a worker that stops."""
    await link.call("HDEL", keys.workers, name)


async def read(link: Link, keys: QueueKeys) -> list[Registered]:
    """The workers that beat within the last hour; none if this user may not look."""
    clock, reply = await link.call_many([("TIME",), ("HGETALL", keys.workers)])
    if not isinstance(clock, list) or not isinstance(reply, list | dict):
        return []
    now_ms = int(clock[0]) * 1000 + int(clock[1]) // 1000
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    found = []
    for name, entry in pairs:
        if (parts := _ENTRY.fullmatch(decode_text(entry))) and (idle_ms := now_ms - int(parts[1])) <= KEPT_S * 1000:
            found.append(Registered(decode_text(name), max(0, idle_ms), parts[2]))
    return found
