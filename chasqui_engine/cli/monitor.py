"""Snapshots of queues for `inspect`, `watch` and `doctor`: one link for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin import monitor as engine
from chasqui_engine.admin.monitor import BadQueue
from chasqui_engine.admin.snapshot import QueueSnapshot
from chasqui_engine.cli.formatting import brief
from chasqui_engine.cli.session import Session, no_such_queue


class Sighting(NamedTuple):
    """The queues, and those that cannot be looked at."""

    queues: list[QueueSnapshot]
    bad: list[BadQueue]

    def as_dicts(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [asdict(one) for one in self.queues] + [{"name": one.name, "error": one.error} for one in self.bad]

    def told(self, most: int) -> list[str]:
        """Up to so many lines about those that cannot be looked at."""
        lines = [f"queue {brief(one.name)} cannot be looked at: {brief(one.error, 200)}" for one in self.bad[:most]]
        more = len(self.bad) - most
        return lines if more <= 0 else [*lines, f"{more:,} more cannot be looked at; --json names them"]


class Monitor:
    """Looks at the queues that were asked for, or at all there are."""

    def __init__(self, looker: engine.QueueMonitor, queues: Sequence[str]) -> None:
        self._looker = looker
        self._queues = list(queues)

    @property
    def address(self) -> str:
        """Where the server is, for people."""
        return self._looker.address

    @property
    def link(self) -> Link:
        """The link that it looks through."""
        return self._looker.link

    async def names(self) -> list[str]:
        """The queues that were asked for, or all there are."""
        return self._queues or await self._looker.names()

    async def look(self) -> Sighting:
        """How they stand now."""
        seen = await self._looker.look(await self.names())
        return Sighting(
            [one for one in seen if isinstance(one, QueueSnapshot)],
            [one for one in seen if isinstance(one, BadQueue)],
        )


@contextlib.asynccontextmanager
async def open_monitor(
    session: Session, queues: Sequence[str], group: str, *, to_come: bool = False
) -> AsyncIterator[Monitor]:
    """A looker, for the time of the block; unless they are `to_come`, the queues must be there."""
    looker = await engine.QueueMonitor.connect(session.url, queue=queues[0] if queues else "default", group=group)
    try:
        for name in [] if to_come else queues:
            if not await stats.exists(looker.link, QueueKeys(name)):
                no_such_queue(name)
        yield Monitor(looker, queues)
    finally:
        await looker.close()
