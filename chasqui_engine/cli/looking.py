"""Snapshots of queues for `inspect`, `watch` and `doctor`: one link for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from chasqui_engine import snapshot
from chasqui_engine._redis import inspecting
from chasqui_engine._redis.connection import Link
from chasqui_engine._redis.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.cli.session import Session
from chasqui_engine.snapshot import QueueSnapshot


class Looker:
    """Looks at the queues of one server, or of one node of a Cluster."""

    def __init__(self, connector: Connector, link: Link, queues: Sequence[str], group: str) -> None:
        self.address = connector.address
        self.link = link
        self._queues = list(queues)
        self._group = group

    async def names(self) -> list[str]:
        """The queues that were asked for, or all there are."""
        return self._queues or await inspecting.queue_names(self.link)

    async def look(self) -> list[QueueSnapshot]:
        """How they stand now."""
        return [await snapshot.take(self.link, QueueKeys(name), self._group) for name in await self.names()]


@contextlib.asynccontextmanager
async def looking(session: Session, queues: Sequence[str], group: str) -> AsyncIterator[Looker]:
    """A looker, for the time of the block."""
    # Of a Cluster, it is the node that holds the first queue.
    connector = Connector(session.url, queues[0] if queues else "default", "cli")
    try:
        yield Looker(connector, await connector.link(A_MOMENT_S).connect(), queues, group)
    finally:
        await connector.close()


def as_dict(seen: QueueSnapshot) -> dict[str, Any]:
    """For JSON."""
    return asdict(seen)
