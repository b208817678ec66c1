"""A server that speaks Redis' protocol and does what a test tells it, for what no real server can be brought to do."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import hiredis

from tests.support.connections.listening import Listening

if TYPE_CHECKING:
    from collections.abc import Callable

    Respond = Callable[[list[bytes]], bytes | None]

OK = b"+OK\r\n"


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


def info(**facts: str) -> bytes:
    """A reply to INFO."""
    facts = {"redis_version": "7.0.15", "maxmemory_policy": "noeviction", **facts}
    return bulk(b"# Server\r\n" + "".join(f"{name}:{value}\r\n" for name, value in facts.items()).encode())


class FakeServer(Listening):
    """`async with FakeServer(respond) as server: … server.url …`.

    `respond` gets every command but those of the greeting; None leaves the command unanswered. Greetings are
    answered like a Redis 7.0 unless `greet` says otherwise.
    """

    def __init__(self, respond: Respond = lambda command: OK, greet: Respond | None = None) -> None:
        super().__init__()
        self._respond = respond
        self._greet = greet or (lambda command: None)
        self.writers: list[asyncio.StreamWriter] = []
        self.commands: list[list[bytes]] = []

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def send(self, data: bytes) -> None:
        """Bytes to the latest client, asked for or not."""
        self.writers[-1].write(data)
        await self.writers[-1].drain()

    def hang_up(self) -> None:
        for writer in self.writers:
            writer.transport.abort()

    def _end_connections(self) -> None:
        self.hang_up()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        parser = hiredis.Reader()
        with contextlib.suppress(OSError):  # the client went away
            while data := await reader.read(65536):
                parser.feed(data)
                while (command := parser.gets()) is not False:
                    reply = self._greeting(command)
                    if reply is None:
                        self.commands.append(command)
                        reply = self._respond(command)
                    if reply is not None:
                        writer.write(reply)
                await writer.drain()
        writer.close()

    def _greeting(self, command: list[bytes]) -> bytes | None:
        if (own := self._greet(command)) is not None:
            return own
        if command[0] in (b"CLIENT", b"AUTH", b"SELECT"):
            return OK
        if command[0] == b"INFO":
            return info()
        if command[0] == b"COMMAND":
            return b"*2\r\n*-1\r\n*0\r\n"
        return None
