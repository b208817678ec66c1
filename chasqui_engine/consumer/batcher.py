"""Collects items that are sent to Redis together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

T = TypeVar("T")


class Batcher(Generic[T]):
    """Flushes at once when nothing is in flight; otherwise after `most` items or `idle_s`."""

    def __init__(
        self,
        flush: Callable[[list[T]], Coroutine[object, object, None]],
        on_failure: Callable[[BaseException], None],
        *,
        most: int,
        idle_s: float = 0.0,
    ) -> None:
        self._flush = flush
        self._on_failure = on_failure
        self._most = most
        self._idle_s = idle_s
        self._items: list[T] = []
        self._on_their_way: set[asyncio.Task[None]] = set()
        self._timer: asyncio.Handle | None = None

    def add(self, item: T) -> None:
        """Adds an item."""
        self._items.append(item)
        if len(self._items) >= self._most:
            self.start()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            if self._on_their_way:
                self._timer = loop.call_later(self._idle_s, self.start)
            else:
                # After this loop turn, in which more may be added.
                self._timer = loop.call_soon(self.start)

    def start(self) -> None:
        """Sends the collected items."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._items:
            items, self._items = self._items, []
            task = asyncio.create_task(self._flush(items))
            self._on_their_way.add(task)
            task.add_done_callback(self._on_arrival)

    def _on_arrival(self, task: asyncio.Task[None]) -> None:
        self._on_their_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
        if self._items and not self._on_their_way:
            self.start()

    async def flush(self) -> None:
        """Sends the collected items, and waits until these and those in flight have arrived or failed."""
        self.start()
        if self._on_their_way:
            await asyncio.wait(set(self._on_their_way))

    async def drain(self) -> None:
        """Sends everything and waits until it has arrived or failed."""
        while self._items or self._on_their_way:
            self.start()
            await asyncio.wait(self._on_their_way)
