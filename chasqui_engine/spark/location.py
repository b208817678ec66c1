"""The location of a queue: the URL of its server, and its name."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.commands.keys import QueueKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLocation:
    """A queue and its server. The repr leaves out the URL, which may hold a password."""

    url: str
    queue: str

    def __repr__(self) -> str:
        return f"QueueLocation(queue={self.queue!r})"

    def connect(self) -> BulkConnection:
        """A new connection, which the caller closes."""
        return BulkConnection(self.url, self.keys.stream, client_name=f"chasqui-spark:{self.queue}")

    @property
    def keys(self) -> QueueKeys:
        """The names of the queue's keys."""
        return QueueKeys(self.queue)

    def stream_key(self, entity: str) -> str:
        """The key of an entity that is a stream."""
        keys = self.keys
        return {"events": keys.events, "jobs": keys.stream, "dead": keys.dlq}[entity]
