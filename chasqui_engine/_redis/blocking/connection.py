"""A blocking connection that moves whole pages and chunks: one command batch at a time, replies as raw bytes.

The redis client opens and authenticates it; from then on its socket is ours, as in `connection.py`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.blocking.endpoints import BlockingEndpoint, blocking_endpoint_for
from chasqui_engine._redis.client.capabilities import PROBE, Capabilities
from chasqui_engine._redis.client.link import Argument, CommandError, is_for_later, pack
from chasqui_engine._redis.client.protocol import Reply
from chasqui_engine._redis.client.replies import ReplyError, new_reader
from chasqui_engine._redis.commands.scripts import Script
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import RedisError

REPLY_TIMEOUT_S = 60.0
PATIENCE_S = 10.0
"""How long to reconnect before the task fails; Spark then runs the task again."""
_RECEIVE_BYTES = 1 << 20
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0

_Result = TypeVar("_Result")


class LostConnectionError(RedisError):
    """The connection was lost; the command may or may not have run."""


class UnreachableError(RedisError):
    """The server was never reached: the error is raised at once, without a retry."""


class BulkConnection:
    """One connection to the server that holds a queue; used by one thread."""

    def __init__(self, url: str | None, key: str, *, client_name: str = "chasqui-bulk") -> None:
        self._endpoint: BlockingEndpoint = blocking_endpoint_for(url, key)
        self._client_name = client_name.replace(" ", "_")
        self._client: Any = None
        self._socket: socket.socket | None = None
        self._replies = new_reader()
        self._end_mark = b""
        self._was_connected = False
        self.capabilities: Capabilities

    @property
    def address(self) -> str:
        """The server's address for people, without a password."""
        return self._endpoint.address

    def patiently(self, work: Callable[[], _Result]) -> _Result:
        """Runs work that is safe to run twice; repeats it after a broken connection, for a limited time."""
        give_up_at = monotonic() + PATIENCE_S
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                return work()
            except LostConnectionError:
                self._drop()
                if monotonic() >= give_up_at:
                    raise
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def connect(self) -> None:
        """Opens the connection now, if it is not open."""
        if self._socket is None:
            self._connect()

    def call(self, *command: Argument) -> Reply:
        """One command, one reply."""
        reply = self.call_many([command])[0]
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
        return reply

    def call_many(self, commands: Sequence[Sequence[Argument]]) -> list[Reply]:
        """Many commands in one write; replies in order, a refused one as its error."""
        if not commands:
            return []
        self.send(b"".join(pack(tuple(command)) for command in commands))
        return [self.receive() for _ in commands]

    def send(self, packed: bytes) -> None:
        """Sends packed commands; the caller receives the replies."""
        wire = self._socket or self._connect()
        if self._endpoint.has_moved():
            raise self._lose("the master is being replaced")
        try:
            wire.sendall(packed)
        except OSError as err:
            raise self._lose(err) from err

    def receive(self) -> Reply:
        """The next reply, parsed."""
        reply = self._replies.gets()
        while reply is False:
            self._replies.feed(self._receive_some())
            reply = self._replies.gets()
        if type(reply) is ReplyError and is_for_later(str(reply)):
            raise self._lose(str(reply))
        return reply

    def run(self, script: Script, keys: Sequence[str], args: Sequence[Argument]) -> Reply:
        """Runs a script by its hash; a server that does not have it yet gets the source."""
        self.connect()
        flags = self.capabilities.script_flags
        try:
            return self.call("EVALSHA", script.sha(flags), len(keys), *keys, *args)
        except CommandError as err:
            if not err.args[0].startswith("NOSCRIPT"):
                raise
        return self.call("EVAL", script.source(flags), len(keys), *keys, *args)

    def ask_for_page(self, *command: Argument) -> None:
        """Sends a command whose reply `receive_page` gives as raw bytes."""
        # What the server echoes after the reply marks its end, so the reply need not be parsed to find it.
        token = os.urandom(16).hex().encode()
        self._end_mark = b"$32\r\n" + token + b"\r\n"
        self.send(pack(command) + pack(("ECHO", token)))

    def receive_page(self) -> bytearray:
        """The raw reply to `ask_for_page`; raises the server's error."""
        mark = self._end_mark
        page = bytearray()
        while not page.endswith(mark):
            page += self._receive_some()
        del page[-len(mark) :]
        if page.startswith(b"-"):
            raise CommandError(page[1:-2].decode(errors="replace"))
        return page

    def close(self) -> None:
        """Closes the connection and releases the endpoint's resources."""
        self._drop()
        self._endpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _receive_some(self) -> bytes:
        wire = self._socket
        if wire is None:
            raise LostConnectionError(f"no connection to {self.address}")
        try:
            data = wire.recv(_RECEIVE_BYTES)
        except OSError as err:
            raise self._lose(err) from err
        if not data:
            raise self._lose(None)
        return data

    def _connect(self) -> socket.socket:
        try:
            self._client = self._endpoint.open(self._client_name)
        except (ClientError, OSError) as err:
            kind = LostConnectionError if self._was_connected else UnreachableError
            raise kind(f"cannot reach the server at {self.address}: {err}") from err
        wire: socket.socket = self._client._sock
        self._socket = wire
        wire.settimeout(REPLY_TIMEOUT_S)
        self._replies = new_reader()
        self.capabilities = Capabilities.read(*self.call_many(PROBE))
        self.capabilities.check(self.address)
        self.call_many(self.capabilities.introduction())  # refused, it changes nothing
        self._was_connected = True
        return wire

    def _lose(self, err: OSError | str | None) -> LostConnectionError:
        self._drop()
        return LostConnectionError(f"lost the connection to {self.address}: {str(err or '') or 'closed by the server'}")

    def _drop(self) -> None:
        client, self._client, self._socket = self._client, None, None
        if client is not None:
            client.disconnect()


def parse_page(raw: bytes | bytearray) -> list[Any]:
    """The entries in a page from `receive_page`."""
    reader = new_reader()
    reader.feed(bytes(raw))
    entries: list[Any] = reader.gets()
    return entries
