"""A link: one connection that many tasks share, each batch of commands one write, replies matched in order.

The redis client opens and authenticates the connection; from then on its socket is ours, because what the client
costs per command is more than what the server does for it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import hiredis
from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.capabilities import PROBE, Capabilities
from chasqui_engine._redis.endpoints import Endpoint
from chasqui_engine._redis.scripts import Script
from chasqui_engine.clock import monotonic
from chasqui_engine.errors import ChasquiError, RedisError, ShutdownError

Reply = Any
Argument = str | bytes | int | float

ReplyError = hiredis.ReplyError

REPLY_TIMEOUT_S = 15.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
# The server did not run the command: it belongs elsewhere, or this is not the moment. Always safe to send again.
_NOT_NOW = (
    *("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN"),
    *("BUSY ", "NOREPLICAS", "MISCONF"),
)

_log = logging.getLogger("chasqui")


def pack(command: tuple[Argument, ...]) -> bytes:
    """A command as it goes over the wire."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed


class CommandError(RedisError):
    """The server's own words about a command it refused."""


class _LostError(Exception):
    """The connection went away before the reply came."""


class _Batch:
    __slots__ = ("count", "due_at", "future", "replies")

    def __init__(self, count: int, future: asyncio.Future[list[Reply]], due_at: float) -> None:
        self.count = count
        self.future = future
        self.due_at = due_at
        self.replies: list[Reply] = []


class _Wire(asyncio.Protocol):
    """The socket: bytes out, replies in."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._loop = asyncio.get_running_loop()
        # Kept, because a writer closes its transport when it is collected.
        self._writer = writer
        self._transport = transport = writer.transport
        self._reader = hiredis.Reader()
        self._waiting: deque[_Batch] = deque()
        self._unsent: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None
        self.alive = True
        transport.set_protocol(self)

    async def exchange(self, packed: bytes, count: int, timeout_s: float) -> list[Reply]:
        """Sends packed commands and returns their replies; `_LostError` if the connection breaks before."""
        if not self.alive:
            raise _LostError
        batch = _Batch(count, self._loop.create_future(), self._loop.time() + timeout_s)
        # Alone: out at once. Others on their way: what is asked within one turn of the loop goes out as one write.
        if not self._waiting:
            self._transport.write(packed)
        else:
            if not self._unsent:
                self._loop.call_soon(self._flush)
            self._unsent.append(packed)
        self._waiting.append(batch)
        # One timer watches over all that waits: setting and cancelling one each costs more than packing a command.
        if self._watch is None or batch.due_at < self._watch.when():
            self._watch_until(batch.due_at)
        return await batch.future

    def _flush(self) -> None:
        if self.alive and self._unsent:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _watch_until(self, due_at: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._loop.call_at(due_at, self._look)

    def _look(self) -> None:
        self._watch = None
        # What nobody waits for any more may take as long as it likes.
        due = [batch.due_at for batch in self._waiting if not batch.future.done()]
        if not due:
            return
        if min(due) <= self._loop.time():
            self.abort("no reply in time")
        else:
            self._watch_until(min(due))

    def data_received(self, data: bytes) -> None:
        reader, waiting = self._reader, self._waiting
        try:
            reader.feed(data)
            while waiting:
                batch = waiting[0]
                replies, count = batch.replies, batch.count
                while len(replies) < count:
                    reply = reader.gets()
                    if reply is False:
                        return
                    replies.append(reply)
                waiting.popleft()
                if not batch.future.done():
                    batch.future.set_result(replies)
            if reader.has_data():
                # Last words before the server hangs up. Kept, they would be taken for the next command's reply.
                self.abort(f"the server said, unasked: {reader.gets()}")
        except hiredis.ProtocolError as err:
            self.abort(f"not a Redis reply: {err}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "closed by the server"))

    def abort(self, why: str) -> None:
        """Drops the connection now; whoever waits gets `_LostError`."""
        self._transport.abort()
        self._fail(why)

    def _fail(self, why: str) -> None:
        self.alive = False
        if self._watch is not None:
            self._watch.cancel()
        while self._waiting:
            batch = self._waiting.popleft()
            if not batch.future.done():
                batch.future.set_exception(_LostError(why))


class Link:
    """A connection that mends itself."""

    def __init__(self, endpoint: Endpoint, *, client_name: str, patience_s: float) -> None:
        self._endpoint = endpoint
        self._client_name = client_name
        self._patience_s = patience_s
        self._wire: _Wire | None = None
        self._opening = asyncio.Lock()
        self._gave_up_at = -math.inf
        self._gave_up_because = ""
        self._closed = False
        self.capabilities: Capabilities

    async def connect(self, patience_s: float = 0) -> Link:
        """Opens the connection now, or soon, or says why that cannot be."""
        await self._live_wire(patience_s)
        return self

    async def call(self, *command: Argument, resend: bool = True, timeout_s: float = REPLY_TIMEOUT_S) -> Reply:
        """One command, one reply. `resend` says that running it twice does no harm."""
        reply = (await self._exchange(pack(command), 1, resend, timeout_s))[0]
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
        return reply

    async def call_many(
        self, commands: Iterable[Sequence[Argument]], *, timeout_s: float = REPLY_TIMEOUT_S
    ) -> list[Reply]:
        """Many commands in one write, each safe to run twice; replies in order, a refused one as its error."""
        packed = [pack(tuple(command)) for command in commands]
        if not packed:
            return []
        return await self._exchange(b"".join(packed), len(packed), True, timeout_s)

    async def run(
        self, script: Script, keys: Sequence[Argument], args: Sequence[Argument], *, resend: bool = True
    ) -> Reply:
        """A script by its hash; a server that does not know it yet is given the text."""
        if self._wire is None:
            await self._live_wire(self._patience_s)
        flags = self.capabilities.script_flags
        rest = (len(keys), *keys, *args)
        try:
            return await self.call("EVALSHA", script.sha(flags), *rest, resend=resend)
        except CommandError as err:
            if not err.args[0].startswith("NOSCRIPT"):
                raise
        return await self.call("EVAL", script.source(flags), *rest, resend=resend)

    async def run_many(
        self, script: Script, calls: Sequence[tuple[Sequence[Argument], Sequence[Argument]]]
    ) -> list[Reply]:
        """One script many times in one write, each call safe to run twice; a refused one as its error."""
        if self._wire is None:
            await self._live_wire(self._patience_s)
        flags = self.capabilities.script_flags
        sha = script.sha(flags)
        replies = await self.call_many(("EVALSHA", sha, len(keys), *keys, *args) for keys, args in calls)
        unknown = [n for n, reply in enumerate(replies) if type(reply) is ReplyError and str(reply)[:8] == "NOSCRIPT"]
        texts = (("EVAL", script.source(flags), len(calls[n][0]), *calls[n][0], *calls[n][1]) for n in unknown)
        for n, reply in zip(unknown, await self.call_many(texts), strict=True):
            replies[n] = reply
        return replies

    def drop(self) -> None:
        """Breaks the connection, as a network would; the next call opens another."""
        if self._wire is not None:
            self._wire.abort("dropped")

    async def close(self) -> None:
        """Ends the link for good."""
        self._closed = True
        self.drop()

    async def _exchange(self, packed: bytes, count: int, resend: bool, timeout_s: float) -> list[Reply]:
        give_up_at = None
        pause_s = _FIRST_PAUSE_S
        while True:
            wire = self._wire
            if wire is None or not wire.alive:
                wire = await self._live_wire(self._patience_s)
            try:
                replies = await wire.exchange(packed, count, timeout_s)
            except _LostError as lost:
                if self._closed:
                    raise ShutdownError("closed while waiting for the server") from None
                if not resend:
                    raise RedisError(
                        f"lost the connection to {self._endpoint.address} ({lost}) before it confirmed the command, "
                        "which may or may not have run; what is added with a job id can be sent again safely"
                    ) from lost
                problem: RedisError = RedisError(
                    f"lost the connection to {self._endpoint.address} again and again: {lost}"
                )
            else:
                refusal = _refusal(replies) if count > 1 or type(replies[0]) is ReplyError else None
                if refusal is None:
                    return replies
                problem = CommandError(refusal)
                wire.abort("the server sent us elsewhere")
            now = monotonic()
            give_up_at = give_up_at or now + self._patience_s
            if now >= give_up_at:
                raise problem
            await asyncio.sleep(pause_s * random.uniform(0.5, 1))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _live_wire(self, patience_s: float) -> _Wire:
        started = monotonic()
        async with self._opening:
            if self._wire is not None and self._wire.alive:
                return self._wire
            # Whoever waited behind others while they tried need not try the same once more.
            if self._gave_up_at > started and monotonic() - started > patience_s:
                raise RedisError(self._gave_up_because)
            pause_s = _FIRST_PAUSE_S
            while True:
                if self._closed:
                    raise ShutdownError("this connection is closed")
                try:
                    self._wire = await self._open()
                except (ClientError, OSError) as err:
                    if monotonic() - started + pause_s > patience_s:
                        self._gave_up_at = monotonic()
                        self._gave_up_because = f"cannot reach the server at {self._endpoint.address}: {_reason(err)}"
                        raise RedisError(self._gave_up_because) from err
                    if pause_s == _FIRST_PAUSE_S:
                        _log.warning("cannot reach %s: %s; trying on", self._endpoint.address, _reason(err))
                else:
                    if pause_s > _FIRST_PAUSE_S:
                        _log.info("back at %s after %.1f s", self._endpoint.address, monotonic() - started)
                    return self._wire
                await asyncio.sleep(pause_s * random.uniform(0.5, 1))
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _open(self) -> _Wire:
        # Bounded by the endpoint, step by step: it may ask several sentinels, or start a server that reads its data.
        connection = await self._endpoint.open(self._client_name)
        wire = _take_over(connection)
        try:
            info, commands = await wire.exchange(b"".join(map(pack, PROBE)), len(PROBE), REPLY_TIMEOUT_S)
        except _LostError as lost:
            raise OSError(f"connection lost while greeting ({lost})") from lost
        except BaseException:
            wire.abort("nobody waits for it any more")
            raise
        if type(info) is ReplyError and str(info).startswith(_NOT_NOW):
            wire.abort("not ready")
            raise OSError(str(info))
        self.capabilities = Capabilities.read(info, commands)
        try:
            self.capabilities.check(self._endpoint.address)
        except ChasquiError:
            wire.abort("not fit")
            raise
        return wire


def _take_over(connection: Any) -> _Wire:
    """Makes the client's open socket ours; the client's object is left empty, so that it does not close it."""
    writer = connection._writer
    connection._reader = connection._writer = None
    return _Wire(writer)


def _refusal(replies: list[Reply]) -> str | None:
    for reply in replies:
        if type(reply) is ReplyError:
            text = str(reply)
            # Servers before 7.0 wrap the error of a script's command in words of their own.
            if text.startswith(_NOT_NOW) or "READONLY You can't write" in text:
                return text
    return None


def _reason(err: BaseException) -> str:
    return str(err) or type(err).__name__
