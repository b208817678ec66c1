"""FastAPI dependencies of all routes: the dashboard, the queue, and the user's rights."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request

from chasqui_engine import ConfigError, Producer
from chasqui_engine.dashboard import csrf
from chasqui_engine.dashboard.auth import Connections, Guard
from chasqui_engine.dashboard.live.feeds import Feed, Feeds
from chasqui_engine.dashboard.live.pollers import AllQueuesPoller, QueuePoller, QueuesPoller
from chasqui_engine.dashboard.pool import Pool
from chasqui_engine.dashboard.settings import DashboardSettings
from chasqui_engine.values.validation import check_queue_name


class Dashboard:
    """The state of a running dashboard."""

    def __init__(self, connections: Connections, guard: Guard, settings: DashboardSettings) -> None:
        self.connections = connections
        self.guard = guard
        self.settings = settings
        self.pool = Pool(connections, settings.group)
        self.searching = asyncio.Lock()
        """Held while a job is searched in all queues."""
        self.adding = asyncio.Lock()
        """Held while a job is added."""
        self.feeds = Feeds(settings.live_interval_s, settings.most_watchers)

    def all_queues_feed(self) -> Feed:
        """All queues of all connections."""
        return self.feeds.of((), lambda: AllQueuesPoller(self.connections, self.queues_feed))

    def queues_feed(self, connection: str) -> Feed:
        """All queues of a connection."""
        return self.feeds.of((connection,), lambda: QueuesPoller(self.pool, self.settings, connection))

    def queue_feed(self, ref: QueueAddress, user: str) -> Feed:
        """One queue."""
        key = (ref.connection, ref.queue)
        return self.feeds.of(key, lambda: QueuePoller(self.pool, self.settings, *key), user)

    def refresh(self, ref: QueueAddress) -> None:
        """Refreshes every feed that shows the queue, after a change."""
        for key in ((ref.connection, ref.queue), (ref.connection,), ()):
            self.feeds.hurry(key)

    @contextlib.asynccontextmanager
    async def producer(self, ref: QueueAddress) -> AsyncIterator[Producer]:
        """The queue, for the time of the block."""
        async with self.pool.producer(ref.connection, ref.queue) as producer:
            yield producer

    async def close(self) -> None:
        """Stops every feed and closes every connection."""
        await self.feeds.close()
        await self.pool.close()


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """A queue of a connection."""

    connection: str
    queue: str


def get_dashboard(request: Request) -> Dashboard:
    """The dashboard of this application."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard


def get_connection(connection: Annotated[str | None, Query()] = None) -> str | None:
    """The server of the request, if any. Read in one place, so that the one checked is the one used."""
    return connection


OptionalConnection = Annotated[str | None, Depends(get_connection)]


async def require_viewer(request: Request, connection: OptionalConnection) -> str:
    """The user's name; refuses users without the right to view."""
    return await get_dashboard(request).guard.user(request, change=False, connection=connection)


async def require_editor(request: Request, connection: OptionalConnection) -> str:
    """The user's name; refuses users without the right to change, and requests from other sites."""
    user = await get_dashboard(request).guard.user(request, change=True, connection=connection)
    csrf.check(request)
    return user


async def list_visible(request: Request) -> frozenset[str]:
    """The servers that the user may view."""
    dashboard, allowed = get_dashboard(request), set()
    for name in await dashboard.connections.names():
        try:
            await dashboard.guard.user(request, change=False, connection=name)
        except HTTPException as err:
            if err.status_code != HTTPStatus.FORBIDDEN:
                raise
        else:
            allowed.add(name)
    return frozenset(allowed)


def require_connection(connection: OptionalConnection) -> str:
    """The server of the request; raises `ConfigError` without one."""
    if connection is None:
        raise ConfigError("connection is missing: pass the name of a server")
    return connection


RequiredConnection = Annotated[str, Depends(require_connection)]


def read_queue_address(connection: RequiredConnection, queue: Annotated[str, Query()]) -> QueueAddress:
    """The queue of the request; raises `ConfigError` for an invalid name."""
    return QueueAddress(connection, check_queue_name(queue, "queue"))


DashboardDep = Annotated[Dashboard, Depends(get_dashboard)]
VisibleConnections = Annotated[frozenset[str], Depends(list_visible)]
Viewer = Annotated[str, Depends(require_viewer)]
Editor = Annotated[str, Depends(require_editor)]
QueueRef = Annotated[QueueAddress, Depends(read_queue_address)]
JobIdQuery = Annotated[str, Query(alias="id", max_length=1024)]
CursorQuery = Annotated[str | None, Query(max_length=50)]
