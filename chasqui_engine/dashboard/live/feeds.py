"""Shared polling: a queue is read once per interval, however many browsers watch it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from typing import Any

from fastapi import HTTPException

from chasqui_engine import ChasquiError
from chasqui_engine.runtime.aio import cancel_and_wait, sleep_until
from chasqui_engine.runtime.clock import monotonic

_LINGER_S = 15.0
"""How long polling continues without a watcher, so that a reload finds it running."""
_REST = 4
"""The pause after a slow poll, in multiples of its duration, so that polling cannot overload the server."""
_MOST_FEEDS = 200
_MOST_FEEDS_EACH = 20
"""Feeds of single queues per user."""

_log = logging.getLogger("chasqui.dashboard")

Poll = Callable[[], Awaitable[Any]]


class Feed:
    """One poll, repeated as long as it has watchers."""

    def __init__(self, poll: Poll, interval_s: float, user: str = "") -> None:
        self.user = user
        """The user who opened it."""
        self._poll = poll
        self._interval_s = interval_s
        self._changed = asyncio.Condition()
        self._hurry = asyncio.Event()
        self._seen: Any = None
        """A value, or the exception of the poll."""
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
        """Polls at once, after a change."""
        self._hurry.set()

    async def now(self) -> Any:
        """The last value; raises the error if the last poll failed."""
        self._wanted_at = monotonic()
        async with self._changed:
            await self._changed.wait_for(lambda: self._version > 0 or self.ended)
        if isinstance(self._seen, Exception):
            raise self._seen
        return self._seen

    async def follow(self, for_s: float, beat_s: float) -> AsyncIterator[Any]:
        """Every new value or exception, and None as a heartbeat; ends after `for_s`."""
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
                self._seen = await self._poll_once()
                self._version += 1
                await self._notify()
                await sleep_until(self._hurry, max(self._interval_s, _REST * (monotonic() - began)))
        finally:
            self.ended = True
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _poll_once(self) -> Any:
        try:
            return await self._poll()
        except (ChasquiError, HTTPException) as err:
            return err
        except Exception as err:  # noqa: BLE001 - shown to the watchers; the next poll may succeed
            _log.exception("the dashboard failed to read a queue")
            return err


class Feeds:
    """All running feeds."""

    def __init__(self, interval_s: float, most_watchers: int) -> None:
        self._interval_s = interval_s
        self._most_watchers = most_watchers
        self._feeds: dict[Hashable, Feed] = {}
        self._closed = False

    def of(self, key: Hashable, make_poll: Callable[[], Poll], user: str = "") -> Feed:
        """The feed of that key; `make_poll` makes the poll of a new one.

        Beyond a limit, the oldest feed of the same user that has no watchers is closed.
        """
        feed = self._feeds.get(key)
        if feed is None or feed.ended:
            for ended in [other for other, one in self._feeds.items() if one.ended]:
                del self._feeds[ended]
            self._make_room(user)
            feed = self._feeds[key] = Feed(make_poll(), self._interval_s, user)
        return feed

    def _make_room(self, user: str) -> None:
        own = [(key, one) for key, one in self._feeds.items() if user and one.user == user]
        if len(own) >= _MOST_FEEDS_EACH:
            unwatched = [(key, one) for key, one in own if not one.watchers]
            if not unwatched:
                raise HTTPException(503, f"You have {len(own)} queues open: close a page and try again.")
            key, oldest = unwatched[0]
            oldest.task.cancel()
            del self._feeds[key]
        if self._closed or len(self._feeds) >= _MOST_FEEDS:
            raise HTTPException(503, "Too many queues are open: try again in a moment.")

    def hurry(self, key: Hashable) -> None:
        """Polls at once, so that the watchers see a change."""
        if (feed := self._feeds.get(key)) is not None:
            feed.hurry()

    def check_room(self) -> None:
        """Refuses another watcher when there are too many."""
        if sum(one.watchers for one in self._feeds.values()) >= self._most_watchers:
            raise HTTPException(503, "Too many pages are open: this one polls instead.")

    def stop(self) -> None:
        """Ends every open stream."""
        self._closed = True
        for feed in self._feeds.values():
            feed.task.cancel()

    async def close(self) -> None:
        """Stops all feeds."""
        self.stop()
        await cancel_and_wait(*(feed.task for feed in self._feeds.values()))
