"""Snapshots of many queues of one server over one link. A queue that cannot be read does not hide the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from chasqui_engine._redis.client.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.client.link import CommandError, Link
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin import snapshot
from chasqui_engine.admin.diagnosis import QueueReport, ServerReport, examine_queue, examine_server
from chasqui_engine.admin.job_lookup import JobInfo, find_job
from chasqui_engine.admin.snapshot import EVENTS_FOR_RATE, QueueSnapshot
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import JobId
from chasqui_engine.values.validation import check_job_id, check_queue_name

_BRIEF_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BadQueue:
    """A queue that cannot be read: one of its keys has the wrong type, or its name is not a valid one."""

    name: str
    error: str
    odd_name: bool
    """Whether its name is wrong: then Chasqui did not create it."""


class QueueMonitor:
    """Reads the state of the queues of one server, or of one node of a Cluster."""

    def __init__(self, connector: Connector, link: Link, group: str) -> None:
        self.address = connector.address
        self.group = group
        self._link = link
        self._connector = connector

    @classmethod
    async def connect(cls, redis_url: str | None, *, queue: str = "default", group: str = "default") -> Self:
        """Connects; raises `RedisError` when the server cannot be reached. Of a Cluster, to the node of `queue`."""
        connector = Connector(redis_url, queue, "monitor")
        try:
            return cls(connector, await connector.link(A_MOMENT_S).connect(), group)
        except BaseException:
            await connector.close()
            raise

    @property
    def server(self) -> str | None:
        """Identifies server and database, independently of the URL; None when the server does not say."""
        run_id = self._link.capabilities.run_id
        return f"{run_id}/{self._connector.database}" if run_id else None

    async def names(self) -> list[str]:
        """The names of all queues in alphabetical order; invalid names come last."""
        return sorted(await stats.list_queue_names(self._link), key=lambda name: (_is_odd(name), name))

    async def exists(self, name: str) -> bool:
        """Whether the server has any key of this queue."""
        return await stats.exists(self._link, QueueKeys(name))

    async def take_snapshots(
        self, names: Sequence[str], *, events: int = EVENTS_FOR_RATE
    ) -> list[QueueSnapshot | BadQueue]:
        """A snapshot of each of these queues; their rates are computed from up to `events` events of each."""
        return [await self._take_snapshot(name, events) for name in names]

    async def _take_snapshot(self, name: str, events: int) -> QueueSnapshot | BadQueue:
        try:
            return await snapshot.take_snapshot(self._link, QueueKeys(name), self.group, events=events)
        except (CommandError, ConfigError) as err:
            return _bad_queue(name, err)

    async def find_job(self, name: str, job_id: JobId) -> JobInfo | BadQueue:
        """The state and history of a job of this queue, with the beginning of its payload."""
        check_job_id(job_id)
        try:
            return await find_job(self._link, QueueKeys(name), self.group, job_id, payload_chars=_BRIEF_CHARS)
        except (CommandError, ConfigError) as err:
            return _bad_queue(name, err)

    async def examine_server(self) -> ServerReport:
        """Version, settings, memory, clock and permissions of the server."""
        return await examine_server(self._link)

    async def examine_queue(self, name: str) -> QueueReport:
        """Groups and last ids of a queue."""
        return await examine_queue(self._link, QueueKeys(name))

    async def close(self) -> None:
        """Closes the link."""
        await self._connector.close()


def _bad_queue(name: str, err: CommandError | ConfigError) -> BadQueue:
    return BadQueue(name=name, error=str(err.args[0]), odd_name=isinstance(err, ConfigError))


def _is_odd(name: str) -> bool:
    try:
        check_queue_name(name)
    except ConfigError:
        return True
    return False
