"""Commands on leader locks, and the server clock that they use."""

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
    """Acquires or renews a leader lock."""
    return bool(await link.run(_ACQUIRE, [lock], [holder, ttl_ms]))


async def release(link: Link, lock: str, holder: str) -> bool:
    """Releases a leader lock if this holder still has it."""
    return bool(await link.run(_RELEASE, [lock], [holder]))
