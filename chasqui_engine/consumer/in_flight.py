"""The entries that are in flight: delivered to this worker and not yet settled."""

from __future__ import annotations

from collections.abc import Iterable

from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine.runtime.clock import monotonic

POISON_SUSPECT = 2
"""Workers that went silent over an entry before: from so many on, it may be what silences them."""


class InFlight:
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
        that is created again, even what ended while the answer was on its way."""
        entries, released = self._entries, self._released
        fresh = [one for one in deliveries if one.entry_id not in entries and one.entry_id not in released]
        for delivery in fresh:
            self._entries[delivery.entry_id] = delivery
        now = monotonic()
        for delivery in fresh:
            delivery.held_at = now
        return fresh

    def redelivered(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
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

    def note_heartbeat(self, asked_at: float, lost: Iterable[bytes]) -> None:
        """Notes a heartbeat: when it was sent, and what it found to be another's."""
        self._kept_at = max(self._kept_at, asked_at)
        for entry_id in lost:
            if delivery := self._entries.get(entry_id):
                delivery.lost = True

    def lease_is_fresh(self, delivery: Delivery, now: float) -> bool:
        """Whether the entry is surely still ours, without asking: no other can have claimed it in so short a time."""
        kept_at = self._kept_at
        # A heartbeat says nothing of entries that came after it, and those may have lain in the socket for long.
        return now - (kept_at if kept_at >= delivery.held_at else delivery.read_at) < self._lease_s
