"""Looking at many queues of one server over one link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from chasqui_engine import snapshot
from chasqui_engine._redis import inspecting
from chasqui_engine._redis.connection import Link
from chasqui_engine._redis.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.snapshot import EVENTS_FOR_RATE, QueueSnapshot


class Looker:
    """Looks at the queues of one server, or of one node of a Cluster."""

    def __init__(self, connector: Connector, link: Link, group: str) -> None:
        self.address = connector.address
        self.link = link
        self.group = group
        self._connector = connector

    @classmethod
    async def connect(cls, redis_url: str | None, *, queue: str = "default", group: str = "default") -> Self:
        """A looker that is connected. Of a Cluster, it looks at the node that holds `queue`."""
        connector = Connector(redis_url, queue, "looker")
        try:
            return cls(connector, await connector.link(A_MOMENT_S).connect(), group)
        except BaseException:
            await connector.close()
            raise

    async def names(self) -> list[str]:
        """Every queue there is, in alphabetical order."""
        return await inspecting.queue_names(self.link)

    async def look(self, names: Sequence[str], *, events: int = EVENTS_FOR_RATE) -> list[QueueSnapshot]:
        """How these queues stand now; their rates are told from up to so many events of each."""
        return [await snapshot.take(self.link, QueueKeys(name), self.group, events=events) for name in names]

    async def close(self) -> None:
        """Closes the link."""
        await self._connector.close()
