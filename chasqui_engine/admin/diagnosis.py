"""Diagnosis of a server and its queues, beyond counts."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.client.server_info import read_server_info
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """Facts about a server; unknown ones are None or empty."""

    server: str
    """"redis" or "valkey"."""
    version: str
    eviction: str
    """Its `maxmemory-policy`."""
    has_ackdel: bool
    """Whether it has `XACKDEL`."""
    has_script_flags: bool
    """Whether scripts may declare flags."""
    info: dict[str, str]
    """The fields of INFO."""
    settings: dict[str, str]
    """From CONFIG, where the user may read it."""
    clock_ms: int
    user: str | None
    forbidden: list[str] | None
    """Commands that the user may not run; None when the server does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """What a queue's counts do not show."""

    groups: list[str]
    """The consumer groups that read it."""
    last_ids: dict[str, tuple[int, int]]
    """The last id that each of its streams gave out, by key."""


async def examine_server(link: Link) -> ServerReport:
    """Asks the server about itself."""
    found = await read_server_info(link, QueueKeys("default"))
    capabilities = link.capabilities
    return ServerReport(
        server=capabilities.server,
        version=capabilities.version,
        eviction=capabilities.eviction,
        has_ackdel=capabilities.ackdel,
        has_script_flags=capabilities.script_flags,
        info=found.info,
        settings=found.settings,
        clock_ms=found.clock_ms,
        user=found.user,
        forbidden=found.forbidden,
    )


async def examine_queue(link: Link, keys: QueueKeys) -> QueueReport:
    """Reads groups and last ids."""
    return QueueReport(
        groups=await stats.list_groups(link, keys),
        last_ids=await stats.read_last_ids(link, keys),
    )
