"""A TCP proxy between client and server that cuts, stalls and slows what passes through it."""

from __future__ import annotations

import asyncio
import contextlib
from urllib.parse import urlsplit

from tests.support.connections.listening import Listening


class _Pair:
    """The two connections that make one way through the proxy."""

    def __init__(self, *transports: asyncio.WriteTransport) -> None:
        self._transports = transports
        self.requests = asyncio.Event()
        self.requests.set()
        self.replies = asyncio.Event()
        self.replies.set()

    def cut(self) -> None:
        for transport in self._transports:
            transport.abort()


class Proxy(Listening):
    """`async with Proxy(server_url) as proxy: … proxy.url …`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._target = urlsplit(url)
        self._pairs: set[_Pair] = set()
        self._admits = asyncio.Event()
        self._admits.set()
        self.delay_s = 0.0
        self.connections = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}{self._target.path}"

    def cut(self) -> None:
        """Resets every connection; new ones are let in."""
        for pair in list(self._pairs):
            pair.cut()

    def freeze(self) -> None:
        """Nothing passes any more on the connections that are open, though they stay open; new ones work."""
        for pair in self._pairs:
            pair.requests.clear()
            pair.replies.clear()

    def stall(self) -> None:
        """`freeze`, and new connections are accepted and left without an answer as well."""
        self.freeze()
        self._admits.clear()

    def hold_replies(self) -> None:
        """What clients ask reaches the server; its answers do not come back."""
        for pair in self._pairs:
            pair.replies.clear()

    def flow(self) -> None:
        """Everything passes again."""
        self._admits.set()
        for pair in self._pairs:
            pair.requests.set()
            pair.replies.set()

    def _end_connections(self) -> None:
        self.flow()
        self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self._admits.wait()
        assert self._target.hostname is not None
        try:
            behind, ahead = await asyncio.open_connection(self._target.hostname, self._target.port)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer.transport, ahead.transport)
        self._pairs.add(pair)
        try:
            await asyncio.gather(self._pass(reader, ahead, pair.requests), self._pass(behind, writer, pair.replies))
        finally:
            self._pairs.discard(pair)
            pair.cut()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await gate.wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
