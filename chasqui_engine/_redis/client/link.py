"""A link: one connection shared by many tasks; each batch of commands is one write, and replies are matched in order.

The redis client opens and authenticates the connection; from then on its socket is ours, because what the client
costs per command is more than what the server does for it.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import hiredis
from redis.exceptions import BusyLoadingError
from redis.exceptions import RedisError as ClientError

from chasqui_engine._redis.client.capabilities import PROBE, Capabilities
from chasqui_engine._redis.client.endpoints import Endpoint
from chasqui_engine._redis.client.outage_log import OutageLog
from chasqui_engine._redis.client.protocol import LostError, RedisProtocol, Reply, SilentError, take_over
from chasqui_engine._redis.client.refusals import refusal_to_connect
from chasqui_engine._redis.client.replies import ReplyError
from chasqui_engine._redis.commands.scripts import Script
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import ChasquiError, RedisError, RefusedError, ShutdownError

Argument = str | bytes | int | float
Resend = bool | Callable[[], bool]
"""Whether running a command twice does no harm: always, never, or as long as this says so."""

REPLY_TIMEOUT_S = 10.0
"""Without any traffic on the connection for this long, a reply is given up."""
LATE_S = 5.0
"""The same for a blocking command, counted from the end of its wait."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
# The server did not run the command: wrong node, or wrong moment. Always safe to send again.
_ELSEWHERE = ("MOVED", "ASK", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN")
_LATER = ("TRYAGAIN", "BUSY ", "NOREPLICAS", "MISCONF")
_NOT_NOW = _ELSEWHERE + _LATER
_NEVER = ("NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE")


def pack(command: tuple[Argument, ...]) -> bytes:
    """A command as it goes over the wire."""
    packed: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return packed


class CommandError(RedisError):
    """The server's error reply to a command."""

    is_reply = True


class RefusedCommandError(CommandError, RefusedError):
    """The same, for a command that would be refused again."""


class _Problem(NamedTuple):
    """Why a command has to be sent again."""

    error: RedisError
    """The error to raise when patience ends."""
    warning: str | None
    """The text for the log; None if the problem may be over immediately."""
    in_doubt: bool = False
    """Whether the command may have run."""


class Link:
    """A connection that reconnects automatically."""

    def __init__(self, endpoint: Endpoint, *, client_name: str, patience_s: float, outage: OutageLog) -> None:
        self._endpoint = endpoint
        self._outage = outage
        self._client_name = client_name
        self._patience_s = patience_s
        self._wire: RedisProtocol | None = None
        self._opening = asyncio.Lock()
        self._gave_up_at = -math.inf
        self._gave_up_because = ""
        self._closed = False
        self.capabilities: Capabilities

    async def connect(self, patience_s: float = 0) -> Link:
        """Opens the connection, retrying if necessary; raises if that is impossible."""
        await self._live_wire(patience_s)
        return self

    async def call(self, *command: Argument, resend: Resend = True, timeout_s: float = REPLY_TIMEOUT_S) -> Reply:
        """One command, one reply. `resend` means that running it twice is harmless."""
        reply = (await self._exchange(pack(command), 1, resend, timeout_s))[0]
        if type(reply) is ReplyError:
            text = str(reply)
            raise (RefusedCommandError if text.startswith(_NEVER) else CommandError)(text)
        return reply

    async def call_many(
        self, commands: Iterable[Sequence[Argument]], *, timeout_s: float = REPLY_TIMEOUT_S
    ) -> list[Reply]:
        """Many commands in one write, each safe to run twice; replies in order, errors as values."""
        packed = [pack(tuple(command)) for command in commands]
        if not packed:
            return []
        return await self._exchange(b"".join(packed), len(packed), True, timeout_s)

    async def run(
        self, script: Script, keys: Sequence[Argument], args: Sequence[Argument], *, resend: Resend = True
    ) -> Reply:
        """Runs a script by its hash; a server that does not have it yet gets the source."""
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
        """One script many times in one write, each call safe to run twice; errors as values."""
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
        """Drops the connection, as a network failure would; the next call opens another."""
        if self._wire is not None:
            self._wire.abort("dropped")

    async def close(self) -> None:
        """Closes the link for good."""
        self._closed = True
        self.drop()

    async def _exchange(self, packed: bytes, count: int, resend: Resend, timeout_s: float) -> list[Reply]:
        wire = self._wire
        if wire is None or not wire.alive:
            wire = await self._live_wire(self._patience_s)
        tried = await self._try(wire, packed, count, resend, timeout_s)
        return await self._retry(tried, packed, count, resend, timeout_s) if isinstance(tried, _Problem) else tried

    async def _try(
        self, wire: RedisProtocol, packed: bytes, count: int, resend: Resend, timeout_s: float
    ) -> list[Reply] | _Problem:
        address = self._endpoint.address
        try:
            replies = await wire.exchange(packed, count, timeout_s)
        except LostError as lost:
            if self._closed:
                raise ShutdownError("closed while waiting for the server") from None
            if not resend:
                raise self._unconfirmed_error(lost) from lost
            error = RedisError(f"lost the connection to {address} repeatedly: {lost}")
            warning = f"{address} does not answer" if type(lost) is SilentError else None
            return _Problem(error, warning, in_doubt=callable(resend))
        refusal = _refusal(replies) if count > 1 or type(replies[0]) is ReplyError else None
        if refusal is None:
            return replies
        if not refusal.startswith(_LATER):
            wire.abort("the server redirected the command to another node")
        return _Problem(CommandError(refusal), f"{address} refuses a command: {refusal.rstrip('.')}")

    def _unconfirmed_error(self, why: object) -> RedisError:
        return RedisError(
            f"lost the connection to {self._endpoint.address} ({why}) before it confirmed the command, "
            "which may or may not have run; jobs with a job id can be added again safely"
        )

    async def _retry(
        self, problem: _Problem, packed: bytes, count: int, resend: Resend, timeout_s: float
    ) -> list[Reply]:
        """Retries until it works or patience ends; logs it, unless the break is short."""
        give_up_at = monotonic() + self._patience_s
        pause_s = _FIRST_PAUSE_S
        is_logged = is_recovered = False
        in_doubt = problem.in_doubt
        try:
            while True:
                if problem.warning is not None and not is_logged:
                    self._outage.begin(problem.warning)
                    is_logged = True
                if monotonic() >= give_up_at:
                    raise problem.error
                await asyncio.sleep(pause_s * random.uniform(0.5, 1))
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                wire = await self._live_wire(self._patience_s)
                if in_doubt and callable(resend) and not resend():
                    raise problem.error
                tried = await self._try(wire, packed, count, resend, timeout_s)
                if not isinstance(tried, _Problem):
                    is_recovered = True
                    if in_doubt and (refusal := _final_refusal(tried)):
                        raise CommandError(refusal)
                    return tried
                in_doubt = in_doubt or tried.in_doubt
                # One loss may be the network's fault; a second one is a real problem.
                problem = tried if tried.warning is not None else _Problem(tried.error, str(tried.error.args[0]))
        except RedisError as err:
            if in_doubt:
                raise self._unconfirmed_error(err.args[0]) from err
            raise
        finally:
            if is_logged:
                self._outage.end(is_recovered=is_recovered)

    async def _live_wire(self, patience_s: float) -> RedisProtocol:
        started = monotonic()
        async with self._opening:
            if self._wire is not None and self._wire.alive:
                return self._wire
            # A call that waited while others tried does not repeat their attempt.
            if self._gave_up_at > started and monotonic() - started > patience_s:
                raise RedisError(self._gave_up_because)
            self._wire = await self._open_patiently(started, patience_s)
            return self._wire

    async def _open_patiently(self, started: float, patience_s: float) -> RedisProtocol:
        pause_s = _FIRST_PAUSE_S
        is_logged = is_recovered = False
        try:
            while True:
                if self._closed:
                    raise ShutdownError("this connection is closed")
                try:
                    wire = await self._open()
                except (ClientError, OSError) as err:
                    why = f"{self._endpoint.address}: {_reason(err)}"
                    if patience_s < math.inf and (refusal := refusal_to_connect(self._endpoint.address, err)):
                        raise RefusedError(refusal) from err
                    # A server that is loading its data gets as much patience as one that was connected before.
                    wait_s = max(patience_s, self._patience_s) if _is_loading(err) else patience_s
                    if monotonic() - started + pause_s > wait_s:
                        self._gave_up_at = monotonic()
                        self._gave_up_because = f"cannot reach the server at {why}"
                        raise RedisError(self._gave_up_because) from err
                    if not is_logged:
                        self._outage.begin(f"cannot reach {why}")
                        is_logged = True
                    elif patience_s < math.inf:
                        self._outage.remind()
                else:
                    is_recovered = True
                    return wire
                await asyncio.sleep(pause_s * random.uniform(0.5, 1))
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        finally:
            if is_logged:
                self._outage.end(is_recovered=is_recovered)

    async def _open(self) -> RedisProtocol:
        # Each step is bounded by the endpoint, which may ask several sentinels or start a server that loads its data.
        connection = await self._endpoint.open(self._client_name)
        wire = take_over(connection)
        self._endpoint.on_open(connection, wire)
        try:
            info, commands = await wire.exchange(b"".join(map(pack, PROBE)), len(PROBE), REPLY_TIMEOUT_S)
        except LostError as lost:
            raise OSError(f"connection lost during the handshake ({lost})") from lost
        except BaseException:
            wire.abort("no call waits for it any more")
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
        # No call waits for the answer: a refusal (by an ACL, say) changes nothing.
        if introduction := self.capabilities.introduction():
            wire.send_unanswered(b"".join(map(pack, introduction)), len(introduction))
        return wire


def _refusal(replies: list[Reply]) -> str | None:
    for reply in replies:
        if type(reply) is ReplyError:
            text = str(reply)
            if is_for_later(text):
                return text
    return None


def _final_refusal(replies: list[Reply]) -> str | None:
    """The server's words, if it does not do what it was asked; that it does not know a script is none."""
    reply = replies[0]
    return str(reply) if type(reply) is ReplyError and not str(reply).startswith("NOSCRIPT") else None


def is_for_later(refusal: str) -> bool:
    """Whether the server did not run the command but may do so later or on another node."""
    return refusal.startswith(_NOT_NOW)


def _is_loading(err: BaseException) -> bool:
    return isinstance(err, BusyLoadingError) or str(err).startswith("LOADING")


def _reason(err: BaseException) -> str:
    return str(err) or type(err).__name__
