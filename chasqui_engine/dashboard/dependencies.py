"""What all routes share, and who is allowed through to them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request

from chasqui_engine.dashboard import csrf
from chasqui_engine.dashboard.auth import Connections, Guard
from chasqui_engine.dashboard.live.feeds import Feed, Feeds
from chasqui_engine.dashboard.live.pollers import AllQueuesPoller, QueuePoller, QueuesPoller
from chasqui_engine.dashboard.pool import Pool
from chasqui_engine.dashboard.settings import DashboardSettings
from chasqui_engine.errors import ConfigError
from chasqui_engine.producer import Producer
from chasqui_engine.validation import check_queue_name


class Dashboard:
    """The running dashboard."""

    def __init__(self, connections: Connections, guard: Guard, settings: DashboardSettings) -> None:
        self.connections = connections
        self.guard = guard
        self.settings = settings
        self.pool = Pool(connections, settings.group)
        self.watches = Feeds(settings.live_interval_s, settings.most_watchers)

    def watch_all(self) -> Feed:
        """All queues of all connections."""
        return self.watches.of((), lambda: AllQueuesPoller(self.connections, self.watch_queues))

    def watch_queues(self, connection: str) -> Feed:
        """All queues of a connection."""
        return self.watches.of((connection,), lambda: QueuesPoller(self.pool, self.settings, connection))

    def watch_queue(self, place: QueueAddress, user: str) -> Feed:
        """One queue."""
        look = (place.connection, place.queue)
        return self.watches.of(look, lambda: QueuePoller(self.pool, self.settings, *look), user)

    def changed(self, place: QueueAddress) -> None:
        """Lets whoever watches see a change at once."""
        for key in ((place.connection, place.queue), (place.connection,), ()):
            self.watches.hurry(key)

    @contextlib.asynccontextmanager
    async def producer(self, place: QueueAddress) -> AsyncIterator[Producer]:
        """The queue, for the time of the block."""
        async with self.pool.producer(place.connection, place.queue) as producer:
            yield producer

    async def close(self) -> None:
        """Ends every look and closes every connection."""
        await self.watches.close()
        await self.pool.close()


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """Which queue is meant."""

    connection: str
    queue: str


def get_dashboard(request: Request) -> Dashboard:
    """That of the application that was asked."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard


def get_connection(connection: Annotated[str | None, Query()] = None) -> str | None:
    """The server that is asked about, if any. Read in one place: what is guarded is what is used."""
    return connection


OptionalConnection = Annotated[str | None, Depends(get_connection)]


async def may_look(request: Request, connection: OptionalConnection) -> str:
    """The user's name, for who may look."""
    return await get_dashboard(request).guard.user(request, change=False, connection=connection)


async def may_change(request: Request, connection: OptionalConnection) -> str:
    """The user's name, for who may change things and does so from our own page."""
    user = await get_dashboard(request).guard.user(request, change=True, connection=connection)
    csrf.check(request)
    return user


async def visible(request: Request) -> frozenset[str]:
    """The servers that who asks may look at."""
    dashboard, seen = get_dashboard(request), set()
    for name in await dashboard.connections.names():
        try:
            await dashboard.guard.user(request, change=False, connection=name)
        except HTTPException as err:
            if err.status_code != HTTPStatus.FORBIDDEN:
                raise
        else:
            seen.add(name)
    return frozenset(seen)


def a_connection(connection: OptionalConnection) -> str:
    """The server that is asked about; raises `ConfigError` without one."""
    if connection is None:
        raise ConfigError("connection is missing: pass the name of a server")
    return connection


RequiredConnection = Annotated[str, Depends(a_connection)]


def queue_address(connection: RequiredConnection, queue: Annotated[str, Query()]) -> QueueAddress:
    """From the query; raises `ConfigError` for what cannot be a queue."""
    return QueueAddress(connection, check_queue_name(queue, "queue"))


DashboardDep = Annotated[Dashboard, Depends(get_dashboard)]
VisibleConnections = Annotated[frozenset[str], Depends(visible)]
Viewer = Annotated[str, Depends(may_look)]
Editor = Annotated[str, Depends(may_change)]
QueueRef = Annotated[QueueAddress, Depends(queue_address)]
