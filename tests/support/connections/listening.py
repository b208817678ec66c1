"""What a server of the tests' own needs: a port, and a task for each connection that comes in."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Self


class Listening(ABC):
    """Listens on `port` within `async with`; all that it serves has ended after that."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0

    @abstractmethod
    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""

    @abstractmethod
    def _end_connections(self) -> None:
        """Ends those that are open."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self._end_connections()
        await self._server.wait_closed()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
