"""Connections to the queues that are looked at, shared by all requests and closed when nobody uses them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from fastapi import HTTPException

from chasqui_engine.admin.monitor import QueueMonitor
from chasqui_engine.aio import cancel_and_wait
from chasqui_engine.clock import monotonic
from chasqui_engine.config import ProducerConfig
from chasqui_engine.dashboard.auth import Connections
from chasqui_engine.errors import ChasquiError
from chasqui_engine.producer import Producer

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
    """Opens at the first use, on the event loop of whoever asks; needs no start, as a mounted application gets none."""

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
    async def looker(self, connection: str) -> AsyncIterator[QueueMonitor]:
        """All queues of a server, for the time of the block."""
        url = await self._url(connection)
        async with self._using((url, None), lambda: QueueMonitor.connect(url, group=self._group)) as looker:
            yield looker

    async def close(self) -> None:
        """Closes everything."""
        await cancel_and_wait(self._tidying)
        kept, self._kept = list(self._kept.values()), {}
        for one in kept:
            await _end(one)

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
        # No turn of the loop between the look and the entry: two must not open the same.
        kept = self._kept.get(key)
        if kept is None or kept.failed:
            kept = self._kept[key] = _Kept(asyncio.ensure_future(connect()))
        kept.users += 1
        try:
            # Whoever gives up waiting does not take it from the others.
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
            raise HTTPException(503, "Too many queues are being looked at: try again in a moment.")
        await _end(self._kept.pop(idle[0][1]))

    async def _tidy(self) -> None:
        while self._kept:
            await asyncio.sleep(_IDLE_S / 4)
            since = monotonic() - _IDLE_S
            for key in [key for key, one in self._kept.items() if not one.users and one.used_at < since]:
                await _end(self._kept.pop(key))


async def _end(one: _Kept) -> None:
    # What never opened has told whoever wanted it.
    with contextlib.suppress(ChasquiError, asyncio.CancelledError):
        opened: Producer | QueueMonitor = await one.opening
        await opened.close()
