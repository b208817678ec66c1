"""What a worker holds: every entry from the moment it was read until Redis confirmed its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from chasqui_engine._redis.taking import Delivery
from chasqui_engine.clock import monotonic
from chasqui_engine.supervise import Stop

SUSPECT = 2
"""Workers that went silent over an entry before: from so many on, it may be what silences them."""


class Held:
    """Entries in this worker's name. The heartbeat, in a thread of its own, keeps all of them."""

    def __init__(self, lease_s: float) -> None:
        self._entries: dict[bytes, Delivery] = {}
        self._released: set[bytes] = set()
        self._lease_s = lease_s
        self._kept_at = float("-inf")

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Adds entries; returns those that were not held already: a claim can bring back our own, and so does a group
        that is made anew, even what ended while the answer was on its way."""
        entries, released = self._entries, self._released
        fresh = [one for one in deliveries if one.entry_id not in entries and one.entry_id not in released]
        for delivery in fresh:
            self._entries[delivery.entry_id] = delivery
        now = monotonic()
        for delivery in fresh:
            delivery.held_at = now
        return fresh

    def brought_back(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Of entries that were taken, those that were ours before and all the while, as they are held: the server has
        counted one delivery more, and none to another."""
        known = ((self._entries.get(one.entry_id), one) for one in deliveries)
        return [held for held, one in known if held is not None and held is not one and held.count == one.deliveries]

    def release(self, delivery: Delivery) -> None:
        """Forgets an entry: its end is written, or it is another's."""
        self._entries.pop(delivery.entry_id, None)
        self._released.add(delivery.entry_id)

    def about_to_read(self) -> None:
        """What was released before a read cannot be in its answer."""
        self._released.clear()

    def entry_ids(self) -> list[bytes]:
        """A snapshot, safe to take from another thread."""
        return list(self._entries)

    def kept(self, asked_at: float, lost: Iterable[bytes]) -> None:
        """Notes a heartbeat: when it was sent, and what it found to be another's."""
        self._kept_at = max(self._kept_at, asked_at)
        for entry_id in lost:
            if delivery := self._entries.get(entry_id):
                delivery.lost = True

    def certain(self, delivery: Delivery, now: float) -> bool:
        """Whether the entry is surely still ours, without asking: nobody can have claimed it in so short a time."""
        kept_at = self._kept_at
        # A heartbeat says nothing of entries that came after it, and those may have lain in the socket for long.
        return now - (kept_at if kept_at >= delivery.held_at else delivery.read_at) < self._lease_s


class Buffer:
    """Entries that wait for a free worker task; after the signal to stop, none is given out.

    Of those that may silence their worker only one is out at a time: it cannot take the others along.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._entries: deque[Delivery] = deque()
        self._suspects: deque[Delivery] = deque()
        self._suspect_out = False
        self._idle: deque[asyncio.Future[None]] = deque()
        self._room = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def stopped(self) -> bool:
        """Whether nothing may start any more."""
        return self._closed or self._stop.is_set()

    @property
    def idle(self) -> int:
        """Worker tasks with nothing to do."""
        return len(self._idle)

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Adds entries and wakes a worker; each that wakes, wakes two more while there is work.

        Handlers that never wait are thus run by one task in a row, at no cost of switching; others spread at once.
        """
        self._entries.extend(deliveries)
        self._wake()

    def put_suspects(self, deliveries: Iterable[Delivery]) -> None:
        """Adds entries of which one may be out at a time, until `suspect_done`."""
        for delivery in deliveries:
            delivery.alone = True
            self._suspects.append(delivery)
        self._offer_suspect()

    def suspect_done(self) -> None:
        """The one that was out has ended, and the server knows."""
        self._suspect_out = False
        self._offer_suspect()

    def _offer_suspect(self) -> None:
        if self._suspects and not self._suspect_out:
            self._suspect_out = True
            self._entries.appendleft(self._suspects.popleft())
            self._wake()

    def take(self) -> Delivery | None:
        """The next entry, None when there is none."""
        # Looked at for every job: handlers that never wait give nobody else the chance to close this buffer.
        if not self._entries or self._stop.is_set():
            return None
        delivery = self._entries.popleft()
        self._room.set()
        return delivery

    async def wait(self) -> bool:
        """Waits until there may be something to take; False when there never will be."""
        while not self._entries or self.stopped:
            if self.stopped:
                return False
            woken = asyncio.get_running_loop().create_future()
            self._idle.append(woken)
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
        """Waits until something was taken."""
        self._room.clear()
        await self._room.wait()

    def nudge(self) -> None:
        """Makes whoever waits for room look again."""
        self._room.set()

    def empty(self) -> list[Delivery]:
        """Takes everything out."""
        if any(delivery.alone for delivery in self._entries):
            self._suspect_out = False
        left = [*self._entries, *self._suspects]
        self._entries.clear()
        self._suspects.clear()
        return left

    def close(self) -> list[Delivery]:
        """Lets no more be taken; returns what was left."""
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
