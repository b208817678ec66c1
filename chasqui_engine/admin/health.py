"""The health of a queue: its server and its workers."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin.workers import list_workers


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """The health of a queue; `str(health)` is a sentence."""

    server: str
    """"redis" or "valkey"."""
    version: str
    queue: str
    group: str
    workers: int | None
    """Workers seen within the last minute; None when there is no group, because no worker ever ran."""
    silent: int
    """Workers with jobs in flight that were not seen for a minute."""
    gone: int = 0
    """Workers without jobs that were not seen for a minute; 0 while the queue is paused."""

    @property
    def healthy(self) -> bool:
        """Whether no worker is missing."""
        return not self.silent and bool(self.workers or not self.gone)

    def __str__(self) -> str:
        where = f"{self.server.capitalize()} {self.version}; group {self.group!r} of queue {self.queue!r}"
        if self.workers is None:
            return f"{where}: no worker has run yet"
        if self.silent:
            return f"{where}: {self.silent} of {self.workers + self.silent} workers have jobs in flight and are silent"
        if not self.workers:
            return f"{where}: no worker is running" + (f"; {self.gone} ended without signing off" if self.gone else "")
        return f"{where}: healthy, {self.workers} workers"


async def read_health(link: Link, keys: QueueKeys, group: str) -> QueueHealth:
    """Reads it from the server."""
    consumers = await list_workers(link, keys, group)
    paused = await stats.is_paused(link, keys)
    unseen = [one for one in consumers or () if not one.is_there(paused=False)]
    silent = sum(one.active > 0 for one in unseen)
    gone = sum(not one.is_there(paused=paused) for one in unseen) - silent
    return QueueHealth(
        server=link.capabilities.server,
        version=link.capabilities.version,
        queue=keys.queue,
        group=group,
        workers=None if consumers is None else len(consumers) - silent - gone,
        silent=silent,
        gone=gone,
    )
