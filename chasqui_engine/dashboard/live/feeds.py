"""Looks that are shared: however many browsers watch a queue, it is looked at once per interval."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any

from fastapi import HTTPException

from chasqui_engine.aio import cancel_and_wait, sleep_until
from chasqui_engine.clock import monotonic
from chasqui_engine.errors import ChasquiError

_LINGER_S = 15.0
"""How long a look goes on when nobody watches: a reload finds it there."""
_REST = 4
"""A look that takes long is followed by a rest of so many times its length, so that it cannot fill the server."""
_MOST_LOOKS = 200
_MOST_LOOKS_EACH = 20
"""Of one user, at queues by name."""

_log = logging.getLogger("chasqui.dashboard")

Poll = Callable[[], Awaitable[Any]]


class Feed:
    """One look, again and again, as long as somebody wants to see it."""

    def __init__(self, look: Poll, interval_s: float, user: str = "") -> None:
        self.user = user
        """Who asked for it first."""
        self._look = look
        self._interval_s = interval_s
        self._changed = asyncio.Condition()
        self._hurry = asyncio.Event()
        self._seen: Any = None
        """A value, or the exception that came instead."""
        self._version = 0
        self._wanted_at = monotonic()
        self._watchers = 0
        self.ended = False
        self.task = asyncio.create_task(self._run())

    @property
    def watchers(self) -> int:
        """How many follow it."""
        return self._watchers

    def hurry(self) -> None:
        """Looks at once: something was changed."""
        self._hurry.set()

    async def now(self) -> Any:
        """What was seen last; raises what went wrong with it."""
        self._wanted_at = monotonic()
        async with self._changed:
            await self._changed.wait_for(lambda: self._version > 0 or self.ended)
        if isinstance(self._seen, Exception):
            raise self._seen
        return self._seen

    async def follow(self, for_s: float, beat_s: float) -> AsyncIterator[Any]:
        """What is seen, as it is seen: values, exceptions, and None as a sign of life; ends after so long."""
        self._watchers += 1
        version, ends_at = 0, monotonic() + for_s
        try:
            while not self.ended and monotonic() < ends_at:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(beat_s), self._changed:
                        await self._changed.wait_for(lambda: self._version > version or self.ended)  # noqa: B023
                yield self._seen if self._version > version else None
                version = self._version
        finally:
            self._watchers -= 1
            self._wanted_at = monotonic()

    async def _run(self) -> None:
        try:
            while self._watchers or monotonic() - self._wanted_at < _LINGER_S:
                began = monotonic()
                self._hurry.clear()
                self._seen = await self._once()
                self._version += 1
                await self._tell()
                await sleep_until(self._hurry, max(self._interval_s, _REST * (monotonic() - began)))
        finally:
            self.ended = True
            await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _once(self) -> Any:
        try:
            return await self._look()
        except (ChasquiError, HTTPException) as err:
            return err
        except Exception as err:  # noqa: BLE001 - told to whoever watches; the next look may do better
            _log.exception("a look of the dashboard failed")
            return err


class Feeds:
    """All looks that go on."""

    def __init__(self, interval_s: float, most_watchers: int) -> None:
        self._interval_s = interval_s
        self._most_watchers = most_watchers
        self._watches: dict[Hashable, Feed] = {}
        self._closed = False

    def of(self, key: Hashable, make_look: Callable[[], Poll], user: str = "") -> Feed:
        """The watch of that key; `make_look` makes the look of a new one.

        A user who asks for many queues ends their own looks by that, the oldest first, and nobody else's.
        """
        watch = self._watches.get(key)
        if watch is None or watch.ended:
            for ended in [other for other, one in self._watches.items() if one.ended]:
                del self._watches[ended]
            self._make_room(user)
            watch = self._watches[key] = Feed(make_look(), self._interval_s, user)
        return watch

    def _make_room(self, user: str) -> None:
        own = [(key, one) for key, one in self._watches.items() if user and one.user == user]
        if len(own) >= _MOST_LOOKS_EACH:
            unseen = [(key, one) for key, one in own if not one.watchers]
            if not unseen:
                raise HTTPException(503, f"You look at {len(own)} queues at once: close a page and try again.")
            key, oldest = unseen[0]
            oldest.task.cancel()
            del self._watches[key]
        if self._closed or len(self._watches) >= _MOST_LOOKS:
            raise HTTPException(503, "Too many queues are being looked at: try again in a moment.")

    def hurry(self, key: Hashable) -> None:
        """Something was changed: whoever watches sees it at once."""
        if (watch := self._watches.get(key)) is not None:
            watch.hurry()

    def check_room(self) -> None:
        """Refuses one more watcher when there are too many."""
        if sum(one.watchers for one in self._watches.values()) >= self._most_watchers:
            raise HTTPException(503, "Too many pages are watching: this one asks now and then instead.")

    def stop(self) -> None:
        """Lets every open stream end."""
        self._closed = True
        for watch in self._watches.values():
            watch.task.cancel()

    async def close(self) -> None:
        """Ends all looks."""
        self.stop()
        await cancel_and_wait(*(watch.task for watch in self._watches.values()))
