"""Connections to queues, shared by all requests and closed when they are idle."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from fastapi import HTTPException

from chasqui_engine import ChasquiError, Producer, ProducerConfig
from chasqui_engine.admin import QueueMonitor
from chasqui_engine.dashboard.auth import Connections
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.runtime.clock import monotonic

_MOST_OPEN = 64
_IDLE_S = 30.0


@dataclass(slots=True)
class _Kept:
    opening: asyncio.Task[Any]
    users: int = 0
    used_at: float = field(default_factory=monotonic)

    @property
    def failed(self) -> bool:
        return self.opening.done() and (self.opening.cancelled() or self.opening.exception() is not None)


class Pool:
    """Opens each connection at its first use, because a mounted application gets no startup event."""

    def __init__(self, connections: Connections, group: str) -> None:
        self._connections = connections
        self._group = group
        self._kept: dict[tuple[str, str | None], _Kept] = {}
        self._tidying: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def producer(self, connection: str, queue: str) -> AsyncIterator[Producer]:
        """One queue, for the time of the block."""
        url, config = await self._url(connection), ProducerConfig(queue_name=queue)
        async with self._using((url, queue), lambda: Producer.connect(url, config)) as producer:
            yield producer

    @contextlib.asynccontextmanager
    async def monitor(self, connection: str) -> AsyncIterator[QueueMonitor]:
        """All queues of a server, for the time of the block."""
        url = await self._url(connection)
        async with self._using((url, None), lambda: QueueMonitor.connect(url, group=self._group)) as monitor:
            yield monitor

    async def close(self) -> None:
        """Closes all connections."""
        await cancel_and_wait(self._tidying)
        kept, self._kept = list(self._kept.values()), {}
        for one in kept:
            await _close(one)

    async def _url(self, connection: str) -> str:
        try:
            return await self._connections.url(connection)
        except KeyError:
            raise HTTPException(404, f"There is no connection {connection!r}.") from None

    @contextlib.asynccontextmanager
    async def _using(
        self, key: tuple[str, str | None], connect: Callable[[], Coroutine[Any, Any, Any]]
    ) -> AsyncIterator[Any]:
        if key not in self._kept:
            await self._make_room()
        # No await between lookup and entry, so that two requests do not open the same.
        kept = self._kept.get(key)
        if kept is None or kept.failed:
            kept = self._kept[key] = _Kept(asyncio.ensure_future(connect()))
        kept.users += 1
        try:
            # A request that is cancelled does not cancel the opening for the others.
            yield await asyncio.shield(kept.opening)
        finally:
            kept.users -= 1
            kept.used_at = monotonic()
            if self._tidying is None or self._tidying.done():
                self._tidying = asyncio.create_task(self._tidy())

    async def _make_room(self) -> None:
        if len(self._kept) < _MOST_OPEN:
            return
        idle = sorted((one.used_at, key) for key, one in self._kept.items() if not one.users)
        if not idle:
            raise HTTPException(503, "Too many queues are open: try again in a moment.")
        await _close(self._kept.pop(idle[0][1]))

    async def _tidy(self) -> None:
        while self._kept:
            await asyncio.sleep(_IDLE_S / 4)
            since = monotonic() - _IDLE_S
            for key in [key for key, one in self._kept.items() if not one.users and one.used_at < since]:
                await _close(self._kept.pop(key))


async def _close(one: _Kept) -> None:
    # A failure to open was raised to the request that asked.
    with contextlib.suppress(ChasquiError, asyncio.CancelledError):
        opened: Producer | QueueMonitor = await one.opening
        await opened.close()
