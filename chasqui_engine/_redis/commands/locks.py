"""Commands on the locks of leaders, and the clock that they go by."""

from __future__ import annotations

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.client.replies import time_ms
from chasqui_engine._redis.commands import scripts

_ACQUIRE = scripts.load("locks/acquire", on_full_server="lock")
_RELEASE = scripts.load("locks/release", on_full_server="lock")


async def server_now_ms(link: Link) -> int:
    """The server's clock."""
    return time_ms(await link.call("TIME"))


async def acquire(link: Link, lock: str, holder: str, ttl_ms: int) -> bool:
    """Takes or keeps a leader's lock."""
    return bool(await link.run(_ACQUIRE, [lock], [holder, ttl_ms]))


async def release(link: Link, lock: str, holder: str) -> bool:
    """Gives a leader's lock back, if it is still this holder's."""
    return bool(await link.run(_RELEASE, [lock], [holder]))
