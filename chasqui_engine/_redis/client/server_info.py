"""Information about a server that shows whether it is fit for jobs."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine._redis.client.capabilities import read_info
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.client.replies import ReplyError, decode_text, time_ms
from chasqui_engine._redis.commands.keys import QueueKeys

_SETTINGS = ("maxmemory", "maxmemory-policy", "appendonly", "appendfsync", "save", "min-replicas-to-write")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The facts that `chasqui doctor` checks; unknown ones are None or empty."""

    info: dict[str, str]
    settings: dict[str, str]
    """From CONFIG, where the user may read it."""
    clock_ms: int
    user: str | None
    forbidden: list[str] | None
    """Commands that the user may not run; None when the server does not say."""


async def read_server_info(link: Link, keys: QueueKeys) -> ServerInfo:
    """Asks the server about itself."""
    config = [("CONFIG", "GET", name) for name in _SETTINGS]
    info, time, user, *settings = await link.call_many([("INFO",), ("TIME",), ("ACL", "WHOAMI"), *config])
    name = decode_text(user) if isinstance(user, bytes) else None
    return ServerInfo(
        info=read_info(info),
        settings=dict(_pair(reply) for reply in settings if isinstance(reply, list) and len(reply) == 2),
        clock_ms=time_ms(time),
        user=name,
        forbidden=None if name is None else await _forbidden(link, keys, name),
    )


async def _forbidden(link: Link, keys: QueueKeys, user: str) -> list[str] | None:
    key = keys.stream
    tries: dict[str, tuple[str, ...]] = {
        "EVALSHA": ("EVALSHA", "0" * 40, "1", key),
        "XADD": ("XADD", key, "*", "d", "x"),
        "XREADGROUP": ("XREADGROUP", "GROUP", "g", "c", "STREAMS", key, ">"),
        "XPENDING": ("XPENDING", key, "g"),
        "XINFO": ("XINFO", "GROUPS", key),
        "XCLAIM": ("XCLAIM", key, "g", "c", "0", "0-0"),
        "ZADD": ("ZADD", keys.delayed, "1", "x"),
        "SET": ("SET", keys.paused, "1"),
        "DEL": ("DEL", keys.paused),
        "MGET": ("MGET", keys.result("x")),
        "TIME": ("TIME",),
    }
    replies = await link.call_many(("ACL", "DRYRUN", user, *command) for command in tries.values())
    if any(type(reply) is ReplyError for reply in replies):  # older than 7.0, or not allowed to ask
        return None
    return [name for name, reply in zip(tries, replies, strict=True) if reply != b"OK"]


def _pair(reply: list[bytes]) -> tuple[str, str]:
    return decode_text(reply[0]), decode_text(reply[1])
