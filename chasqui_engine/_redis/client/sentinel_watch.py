"""Listens to the sentinels while there are connections to their master, and drops those when it is replaced."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Sequence

from redis.exceptions import RedisError as ClientError
from redis.exceptions import ResponseError

from chasqui_engine._redis.client.failover import CHANNELS, FailoverNews
from chasqui_engine._redis.client.protocol import RedisProtocol
from chasqui_engine._redis.client.server import Server
from chasqui_engine._redis.client.urls import HostPort
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import error_text

_log = logging.getLogger("chasqui.redis")

_LAST_REPLIES_S = 0.05
"""Time for replies in flight when a failover begins; the promotion does not come earlier."""
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_A_DAY_S = 86_400.0
_CLIENT_NAME = "chasqui-failover"


class SentinelWatch:
    """Shared by all connections of one event loop to one service."""

    def __init__(self, sentinels: Server, places: Sequence[HostPort], service: str) -> None:
        self._sentinels = sentinels
        self._service = service
        self._news = FailoverNews(service)
        self._changed = asyncio.Condition()
        self._wires: weakref.WeakKeyDictionary[RedisProtocol, HostPort] = weakref.WeakKeyDictionary()
        self._refused: set[HostPort] = set()
        self.users = 0
        self._tasks = [asyncio.create_task(self._listen(place), name="chasqui-failover") for place in places]

    def on_open(self, wire: RedisProtocol, place: HostPort) -> None:
        """Registers a connection to the master at an address."""
        self._wires[wire] = place
        if not self.is_safe(place):
            wire.retire("the master is being replaced", _LAST_REPLIES_S)

    def is_safe(self, place: HostPort) -> bool:
        """Whether the master at this address is not known to be replaced."""
        return not self._news.under_way and not self._news.is_replaced(place)

    async def wait_for_news(self, at_most_s: float) -> None:
        """Waits for a message of a sentinel, up to a timeout."""
        try:
            async with asyncio.timeout(at_most_s), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return

    async def leave(self) -> None:
        """Removes a user; the last one ends listening."""
        self.users -= 1
        if not self.users:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, place: HostPort) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            began = monotonic()
            try:
                await self._follow(place)
            except ResponseError as err:
                self._say_refused(place, err)
            except (ClientError, OSError) as err:
                _log.debug("cannot listen to sentinel %s:%s: %s", *place, error_text(err))
            if monotonic() - began > _LONGEST_PAUSE_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _follow(self, place: HostPort) -> None:
        """Processes the messages of one sentinel until the connection is lost."""
        connection = await self._sentinels.open_at(_CLIENT_NAME, place)
        try:
            await connection.send_command("PSUBSCRIBE", *CHANNELS)
            for _ in CHANNELS:
                await connection.read_response()
            # Missed messages show in the master's current address.
            await self._compare(place)
            while True:
                message = await connection.read_response(timeout=_A_DAY_S)
                if message and message[0] == b"pmessage":
                    await self._read(*(part.decode(errors="replace") for part in message[2:]))
        finally:
            await connection.disconnect(nowait=True)

    async def _compare(self, sentinel: HostPort) -> None:
        found = await self._sentinels.ask(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        if found:
            self._leave(named=HostPort(found[0].decode(), int(found[1])))

    async def _read(self, channel: str, text: str) -> None:
        if self._news.read(channel, text):
            _log.info("sentinels replace the master of %s (%s %s); disconnecting from it", self._service, channel, text)
            self._leave()
        async with self._changed:
            self._changed.notify_all()

    def _leave(self, named: HostPort | None = None) -> None:
        for wire, place in list(self._wires.items()):
            if not self.is_safe(place) or named not in (None, place):
                wire.retire("the master is being replaced", _LAST_REPLIES_S)

    def _say_refused(self, place: HostPort, err: ResponseError) -> None:
        if place not in self._refused:
            self._refused.add(place)
            _log.warning(
                "sentinel %s:%s does not announce failovers to this user: %s. "
                "Allow the user PSUBSCRIBE with all channels (ACL: +psubscribe allchannels), or jobs may be lost",
                *place,
                err,
            )


_watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakValueDictionary[str, SentinelWatch]]
_watches = weakref.WeakKeyDictionary()


def join(url: str, sentinels: Server, places: Sequence[HostPort], service: str) -> SentinelWatch:
    """The watch shared by all connections of this event loop to the same URL; every user must leave it."""
    here = _watches.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
    watch = here.get(url)
    if watch is None or not watch.users:
        here[url] = watch = SentinelWatch(sentinels, places, service)
    watch.users += 1
    return watch
