"""The socket under a link: batches of commands out, replies in, matched in order."""

from __future__ import annotations

import asyncio
import math
import os
import weakref
from collections import deque
from typing import Any

import hiredis

from chasqui_engine._redis.client.replies import new_reader
from chasqui_engine.runtime.posix import at_fork

Reply = Any

_SIGN_OF_LIFE_S = 2.0
"""While bytes arrive or leave at least this often, a late reply is still awaited."""


class LostError(Exception):
    """The connection was lost before the reply arrived."""


class SilentError(LostError):
    """The connection was dropped because no reply arrived."""


class _Batch:
    __slots__ = ("count", "due_at", "future", "replies")

    def __init__(self, count: int, future: asyncio.Future[list[Reply]], due_at: float) -> None:
        self.count = count
        self.future = future
        self.due_at = due_at
        self.replies: list[Reply] = []


class RedisProtocol(asyncio.Protocol):
    """The socket: bytes out, replies in."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._loop = asyncio.get_running_loop()
        # Kept, because a writer closes its transport when it is collected.
        self._writer = writer
        self._transport = transport = writer.transport
        self._reader = new_reader()
        self._waiting: deque[_Batch] = deque()
        self._unsent: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None
        self._heard_at = -math.inf
        self._unsent_bytes = 0
        self.alive = True
        transport.set_protocol(self)
        _open.add(self)

    async def exchange(self, packed: bytes, count: int, timeout_s: float) -> list[Reply]:
        """Sends packed commands and returns their replies; `LostError` if the connection breaks before."""
        if not self.alive:
            raise LostError
        batch = _Batch(count, self._loop.create_future(), self._loop.time() + timeout_s)
        self._send(packed, batch)
        # One timer covers all waiting calls: a timer each costs more than packing a command.
        if self._watch is None or batch.due_at < self._watch.when():
            self._watch_until(batch.due_at)
        return await batch.future

    def send_unanswered(self, packed: bytes, count: int) -> None:
        """Sends packed commands whose replies are dropped."""
        batch = _Batch(count, self._loop.create_future(), math.inf)
        batch.future.cancel()
        self._send(packed, batch)

    def _send(self, packed: bytes, batch: _Batch) -> None:
        # A single command is written at once; with others in flight, commands of one loop turn are one write.
        if not self._waiting:
            self._transport.write(packed)
        else:
            if not self._unsent:
                self._loop.call_soon(self._flush)
            self._unsent.append(packed)
        self._waiting.append(batch)

    def _flush(self) -> None:
        if self.alive and self._unsent:
            self._transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _watch_until(self, due_at: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._loop.call_at(due_at, self._check_replies)

    def _check_replies(self) -> None:
        self._watch = None
        # A reply without a waiting call may take any time.
        due = [batch.due_at for batch in self._waiting if not batch.future.done()]
        if not due:
            return
        now = self._loop.time()
        if min(due) > now:
            self._watch_until(min(due))
        elif self._moves(now):
            self._watch_until(now + _SIGN_OF_LIFE_S)
        else:
            self._transport.abort()
            self._fail(SilentError("no reply in time"))

    def _moves(self, now: float) -> bool:
        """Whether bytes moved recently: a large reply on a slow network is still arriving."""
        before, self._unsent_bytes = self._unsent_bytes, self._transport.get_write_buffer_size()
        return now - self._heard_at < _SIGN_OF_LIFE_S or self._unsent_bytes != before

    def data_received(self, data: bytes) -> None:
        reader, waiting = self._reader, self._waiting
        self._heard_at = self._loop.time()
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
                # An error sent before the server hangs up. Kept, it would be matched to the next command.
                self.abort(f"unexpected message from the server: {reader.gets()}")
        except hiredis.ProtocolError as err:
            self.abort(f"not a Redis reply: {err}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(LostError(str(exc or "closed by the server")))

    def abort(self, why: str) -> None:
        """Drops the connection; every waiting call gets `LostError`."""
        self._transport.abort()
        self._fail(LostError(why))

    def retire(self, why: str, within_s: float) -> None:
        """Accepts no more commands; those in flight may still be answered for a moment."""
        if not self.alive:
            return
        self._flush()
        self.alive = False
        self._loop.call_later(within_s if self._waiting else 0, self.abort, why)

    def leave_to_parent(self, nowhere: int) -> None:
        """In a forked child: closes its copy of the socket without notifying the server."""
        number = self._transport.get_extra_info("socket").fileno()
        if number >= 0:
            os.dup2(nowhere, number, inheritable=False)

    def _fail(self, error: LostError) -> None:
        self.alive = False
        if self._watch is not None:
            self._watch.cancel()
        while self._waiting:
            batch = self._waiting.popleft()
            if not batch.future.done():
                batch.future.set_exception(error)


_open: weakref.WeakSet[RedisProtocol] = weakref.WeakSet()


def _leave_all_to_parent() -> None:
    """If a child of a worker kept its sockets, the server would not notice that the worker died, and would continue to
    give it jobs."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for wire in list(_open):
        wire.leave_to_parent(nowhere)
    os.close(nowhere)


at_fork(after_in_child=_leave_all_to_parent)


def take_over(connection: Any) -> RedisProtocol:
    """Takes over the client's open socket; the client's object is left empty so that it does not close it."""
    writer = connection._writer
    connection._reader = connection._writer = None
    return RedisProtocol(writer)
