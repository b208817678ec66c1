"""Whether a queue's server answers, what it is, and whether anybody works there."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys

_SILENT_MS = 60_000
"""A worker asks for jobs, or beats for those it holds, far more often than this, unless it is gone, or its `block_ms`
or `claim_min_idle_ms` is as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHealth:
    """The state of a queue in a sentence: `str(health)`."""

    server: str
    """"redis" or "valkey"."""
    version: str
    queue: str
    group: str
    workers: int | None
    """Those heard of within the last minute; None when the group has not been made yet: no worker was ever there."""
    silent: int
    """Workers that hold jobs and have not been heard of for a minute."""
    gone: int = 0
    """Workers that hold no jobs and have not been heard of for a minute; none, while the queue is paused."""

    @property
    def healthy(self) -> bool:
        """Whether nothing needs a look."""
        return not self.silent and bool(self.workers or not self.gone)

    def __str__(self) -> str:
        where = f"{self.server.capitalize()} {self.version}; group {self.group!r} of queue {self.queue!r}"
        if self.workers is None:
            return f"{where}: no worker has been here yet"
        if self.silent:
            return f"{where}: {self.silent} of {self.workers + self.silent} workers hold jobs and are silent"
        if not self.workers:
            return f"{where}: no worker is here" + (f" any more; {self.gone} went without a word" if self.gone else "")
        return f"{where}: healthy, {self.workers} workers"


async def ask(link: Link, keys: QueueKeys, group: str) -> QueueHealth:
    """Asks the server."""
    consumers = await stats.list_consumers(link, keys, group)
    # Of those who take no jobs from a paused queue nothing is heard.
    paused = await stats.is_paused(link, keys)
    unheard = [one for one in consumers or () if one.idle_ms > _SILENT_MS]
    silent = sum(one.pending > 0 for one in unheard)
    gone = 0 if paused else len(unheard) - silent
    return QueueHealth(
        server=link.capabilities.server,
        version=link.capabilities.version,
        queue=keys.queue,
        group=group,
        workers=None if consumers is None else len(consumers) - silent - gone,
        silent=silent,
        gone=gone,
    )
