"""What all routes share, and who is allowed through to them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request

from chasqui_engine.dashboard import csrf
from chasqui_engine.dashboard.access import Connections, Guard
from chasqui_engine.dashboard.looks import AllLook, QueueLook, QueuesLook
from chasqui_engine.dashboard.pool import Pool
from chasqui_engine.dashboard.settings import DashboardSettings
from chasqui_engine.dashboard.watching import Watch, Watches
from chasqui_engine.errors import ConfigError
from chasqui_engine.names import check_queue_name
from chasqui_engine.producer import Producer


class Dashboard:
    """The running dashboard."""

    def __init__(self, connections: Connections, guard: Guard, settings: DashboardSettings) -> None:
        self.connections = connections
        self.guard = guard
        self.settings = settings
        self.pool = Pool(connections, settings.group)
        self.watches = Watches(settings.live_interval_s, settings.most_watchers)

    def watch_all(self) -> Watch:
        """All queues of all connections."""
        return self.watches.of((), lambda: AllLook(self.connections, self.watch_queues))

    def watch_queues(self, connection: str) -> Watch:
        """All queues of a connection."""
        return self.watches.of((connection,), lambda: QueuesLook(self.pool, self.settings, connection))

    def watch_queue(self, place: Place, user: str) -> Watch:
        """One queue."""
        look = (place.connection, place.queue)
        return self.watches.of(look, lambda: QueueLook(self.pool, self.settings, *look), user)

    def changed(self, place: Place) -> None:
        """Lets whoever watches see a change at once."""
        for key in ((place.connection, place.queue), (place.connection,), ()):
            self.watches.hurry(key)

    @contextlib.asynccontextmanager
    async def producer(self, place: Place) -> AsyncIterator[Producer]:
        """The queue, for the time of the block."""
        async with self.pool.producer(place.connection, place.queue) as producer:
            yield producer

    async def close(self) -> None:
        """Ends every look and closes every connection."""
        await self.watches.close()
        await self.pool.close()


@dataclass(frozen=True, slots=True)
class Place:
    """Which queue is meant."""

    connection: str
    queue: str


def the_dashboard(request: Request) -> Dashboard:
    """That of the application that was asked."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard


def the_connection(connection: Annotated[str | None, Query()] = None) -> str | None:
    """The server that is asked about, if any. Read in one place: what is guarded is what is used."""
    return connection


Asked = Annotated[str | None, Depends(the_connection)]


async def may_look(request: Request, connection: Asked) -> str:
    """The user's name, for who may look."""
    return await the_dashboard(request).guard.user(request, change=False, connection=connection)


async def may_change(request: Request, connection: Asked) -> str:
    """The user's name, for who may change things and does so from our own page."""
    user = await the_dashboard(request).guard.user(request, change=True, connection=connection)
    csrf.check(request)
    return user


async def visible(request: Request) -> frozenset[str]:
    """The servers that who asks may look at."""
    dashboard, seen = the_dashboard(request), set()
    for name in await dashboard.connections.names():
        try:
            await dashboard.guard.user(request, change=False, connection=name)
        except HTTPException as err:
            if err.status_code != HTTPStatus.FORBIDDEN:
                raise
        else:
            seen.add(name)
    return frozenset(seen)


def a_connection(connection: Asked) -> str:
    """The server that is asked about; raises `ConfigError` without one."""
    if connection is None:
        raise ConfigError("connection is missing: pass the name of a server")
    return connection


Named = Annotated[str, Depends(a_connection)]


def the_place(connection: Named, queue: Annotated[str, Query()]) -> Place:
    """From the query; raises `ConfigError` for what cannot be a queue."""
    return Place(connection, check_queue_name(queue, "queue"))


The = Annotated[Dashboard, Depends(the_dashboard)]
Visible = Annotated[frozenset[str], Depends(visible)]
Looking = Annotated[str, Depends(may_look)]
Changing = Annotated[str, Depends(may_change)]
At = Annotated[Place, Depends(the_place)]
