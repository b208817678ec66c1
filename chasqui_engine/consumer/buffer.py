"""The prefetch buffer: entries that were delivered and have not started."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine.runtime.aio import Stop


class PrefetchBuffer:
    """Entries waiting for a free worker task; after the stop signal none is taken.

    Of the quarantined entries only one runs at a time, so that it cannot take the others down with it.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._entries: deque[Delivery] = deque()
        self._quarantined: deque[Delivery] = deque()
        self._quarantined_is_out = False
        self._idle: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._news = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def stopped(self) -> bool:
        """Whether no entry may start any more."""
        return self._closed or self._stop.is_set()

    @property
    def idle(self) -> int:
        """The number of idle worker tasks."""
        return len(self._idle)

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Adds entries and wakes a worker task; each one wakes two more while there is work.

        Handlers that never wait are thus run in a row by one task, without switching; others spread at once.
        """
        self._entries.extend(deliveries)
        self._wake()

    def quarantine(self, deliveries: Iterable[Delivery]) -> None:
        """Adds entries of which only one runs at a time, until `quarantine_done`."""
        for delivery in deliveries:
            delivery.quarantined = True
            self._quarantined.append(delivery)
        self._offer_quarantined()

    def quarantine_done(self) -> None:
        """The running quarantined entry has been settled."""
        self._quarantined_is_out = False
        self._offer_quarantined()

    def _offer_quarantined(self) -> None:
        if self._quarantined and not self._quarantined_is_out:
            self._quarantined_is_out = True
            self._entries.appendleft(self._quarantined.popleft())
            self._wake()

    def take(self) -> Delivery | None:
        """The next entry; None if there is none."""
        # Checked for every job: handlers that never wait leave no other task a chance to close this buffer.
        if not self._entries or self._stop.is_set():
            return None
        delivery = self._entries.popleft()
        self._room.set()
        return delivery

    async def wait(self) -> bool:
        """Waits until there may be an entry; False if there will be no more."""
        while not self._entries or self.stopped:
            if self.stopped:
                return False
            woken = asyncio.get_running_loop().create_future()
            self._idle.append(woken)
            self._news.set()
            try:
                await woken
            finally:
                if not woken.done() or woken.cancelled():
                    self._idle = deque(idle for idle in self._idle if idle is not woken)
        if len(self._entries) > 1:
            self._wake()
            self._wake()
        return True

    async def wait_for_room(self) -> None:
        """Waits until an entry is taken."""
        self._room.clear()
        await self._room.wait()

    async def wait_for_idle_or_room(self) -> None:
        """Waits until a task is idle, or a job has ended."""
        self._news.clear()
        await self._news.wait()

    def nudge(self) -> None:
        """Wakes the reader, which waits for room."""
        self._room.set()
        self._news.set()

    def remove(self, delivery: Delivery) -> bool:
        """Removes an entry; False if it is not here, or a quarantined one whose turn it is."""
        entries = self._quarantined if delivery.quarantined else self._entries
        if delivery not in entries:
            return False
        entries.remove(delivery)
        return True

    def empty(self) -> list[Delivery]:
        """Removes and returns all entries."""
        if any(delivery.quarantined for delivery in self._entries):
            self._quarantined_is_out = False
        left = [*self._entries, *self._quarantined]
        self._entries.clear()
        self._quarantined.clear()
        return left

    def close(self) -> list[Delivery]:
        """Closes the buffer; returns the remaining entries."""
        self._closed = True
        left = self.empty()
        while self._idle:
            self._wake()
        return left

    def _wake(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return
