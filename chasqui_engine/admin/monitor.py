"""Looking at many queues of one server over one link. One that cannot be looked at hides no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from chasqui_engine._redis.client.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.client.link import CommandError, Link
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin import snapshot
from chasqui_engine.admin.snapshot import EVENTS_FOR_RATE, QueueSnapshot
from chasqui_engine.errors import ConfigError
from chasqui_engine.validation import check_queue_name


@dataclass(frozen=True, slots=True, kw_only=True)
class BadQueue:
    """A queue that cannot be looked at: one of its keys is of the wrong type, or no queue can have its name."""

    name: str
    error: str
    odd_name: bool
    """Whether it is its name that is wrong: then it is not a queue of ours."""


class QueueMonitor:
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

    @property
    def server(self) -> str | None:
        """Which server and database it is, the same whatever URL leads there; None when the server does not say."""
        run_id = self.link.capabilities.run_id
        return f"{run_id}/{self._connector.database}" if run_id else None

    async def names(self) -> list[str]:
        """Every queue there is, in alphabetical order; names that no queue can have come last."""
        return sorted(await stats.list_queue_names(self.link), key=lambda name: (_is_odd(name), name))

    async def look(self, names: Sequence[str], *, events: int = EVENTS_FOR_RATE) -> list[QueueSnapshot | BadQueue]:
        """How these queues stand now; their rates are told from up to so many events of each."""
        return [await self._one(name, events) for name in names]

    async def _one(self, name: str, events: int) -> QueueSnapshot | BadQueue:
        try:
            return await snapshot.take_snapshot(self.link, QueueKeys(name), self.group, events=events)
        except (CommandError, ConfigError) as err:
            return BadQueue(name=name, error=str(err.args[0]), odd_name=isinstance(err, ConfigError))

    async def close(self) -> None:
        """Closes the link."""
        await self._connector.close()


def _is_odd(name: str) -> bool:
    try:
        check_queue_name(name)
    except ConfigError:
        return True
    return False
