"""Whether a queue's server answers, what it is, and whether anybody works there."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine._redis import inspecting
from chasqui_engine._redis.connection import Link
from chasqui_engine._redis.keys import QueueKeys

_SILENT_MS = 60_000
"""A worker that holds jobs beats far more often than this, unless it is gone or its `claim_min_idle_ms` is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """The state of a queue in a sentence: `str(health)`."""

    server: str
    """"redis" or "valkey"."""
    version: str
    queue: str
    group: str
    workers: int | None
    """None when the group has not been made yet: no worker was ever there."""
    silent: int
    """Workers that hold jobs and have not been heard of for a minute."""

    @property
    def healthy(self) -> bool:
        """Whether nothing needs a look."""
        return not self.silent

    def __str__(self) -> str:
        where = f"{self.server.capitalize()} {self.version}; group {self.group!r} of queue {self.queue!r}"
        if self.workers is None:
            return f"{where}: no worker has been here yet"
        if self.silent:
            return f"{where}: {self.silent} of {self.workers} workers hold jobs and are silent"
        return f"{where}: healthy, {self.workers} workers"


async def ask(link: Link, keys: QueueKeys, group: str) -> QueueHealth:
    """Asks the server."""
    consumers = await inspecting.consumers(link, keys, group)
    return QueueHealth(
        server=link.capabilities.server,
        version=link.capabilities.version,
        queue=keys.queue,
        group=group,
        workers=None if consumers is None else len(consumers),
        silent=sum(1 for one in consumers or () if one.pending and one.idle_ms > _SILENT_MS),
    )
