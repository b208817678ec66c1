"""The location of a queue: the URL of its server, and its name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.values.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLocation:
    """A queue and its server. The repr leaves out the URL, which may hold a password."""

    url: str
    queue: str
    looked_up_by: tuple[str | None] | None = None
    """What travels to a task instead of the URL: the name of a connection, or none for the environment's URL. The
    process there looks it up again."""

    def __reduce__(self) -> tuple[Callable[..., QueueLocation], tuple[str | None, str]]:
        if self.looked_up_by is None:
            return _locate, (self.url, self.queue)
        return _look_up, (*self.looked_up_by, self.queue)

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


def _locate(url: str, queue: str) -> QueueLocation:
    return QueueLocation(url=url, queue=queue)


def _look_up(conn_id: str | None, queue: str) -> QueueLocation:
    name, given = ("CHASQUI_REDIS_URL", {}) if conn_id is None else (f"connection {conn_id!r}", {"connId": conn_id})
    try:
        url = connection_url(given) if conn_id is not None or os.environ.get(name) else None
    except Exception as err:
        raise ConfigError(f"{_unknown(name)}: {err}") from err
    if url is None:
        raise ConfigError(_unknown(name))
    return QueueLocation(url=url, queue=queue, looked_up_by=(conn_id,))


def _unknown(name: str) -> str:
    return (
        f"with credentials=executor every executor must know {name} by its own environment; this one does not: give "
        "it there (spark.executorEnv.…, a secret of the cluster), or leave the option out"
    )
