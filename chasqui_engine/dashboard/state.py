"""What all routes share, and who is allowed through to them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request

from chasqui_engine.dashboard import csrf
from chasqui_engine.dashboard.access import Connections, Guard
from chasqui_engine.dashboard.looks import AllLook, QueueLook, QueuesLook
from chasqui_engine.dashboard.pool import Pool
from chasqui_engine.dashboard.settings import DashboardSettings
from chasqui_engine.dashboard.watching import Watch, Watches
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

    def watch_queue(self, place: Place) -> Watch:
        """One queue."""
        look = (place.connection, place.queue)
        return self.watches.of(look, lambda: QueueLook(self.pool, self.settings, *look))

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


async def may_look(request: Request) -> str:
    """The user's name, for who may look."""
    return await the_dashboard(request).guard.user(request, change=False)


async def may_change(request: Request) -> str:
    """The user's name, for who may change things and does so from our own page."""
    user = await the_dashboard(request).guard.user(request, change=True)
    csrf.check(request)
    return user


def the_place(connection: Annotated[str, Query()], queue: Annotated[str, Query()]) -> Place:
    """From the query; raises `ConfigError` for what cannot be a queue."""
    return Place(connection, check_queue_name(queue, "queue"))


The = Annotated[Dashboard, Depends(the_dashboard)]
Looking = Annotated[str, Depends(may_look)]
Changing = Annotated[str, Depends(may_change)]
At = Annotated[Place, Depends(the_place)]
