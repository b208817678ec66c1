"""The entries that are in flight: delivered to this worker and not yet settled."""

from __future__ import annotations

from collections.abc import Iterable

from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine.runtime.clock import monotonic

POISON_SUSPECT = 2
"""An entry whose workers died this often may be the cause, and is quarantined."""


class InFlight:
    """Entries in this worker's name. The heartbeat, in its own thread, renews all of them."""

    def __init__(self, lease_s: float) -> None:
        self._entries: dict[bytes, Delivery] = {}
        self._released: set[bytes] = set()
        self._lease_s = lease_s
        self._kept_at = float("-inf")

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Adds entries; returns those that are new: a claim can return our own, and so does a group
        that is created again, even entries settled while the answer was in transit."""
        entries, released = self._entries, self._released
        fresh = [one for one in deliveries if one.entry_id not in entries and one.entry_id not in released]
        for delivery in fresh:
            self._entries[delivery.entry_id] = delivery
        now = monotonic()
        for delivery in fresh:
            delivery.held_at = now
        return fresh

    def find(self, entry_id: bytes) -> Delivery | None:
        """The entry, if it is in flight here."""
        return self._entries.get(entry_id)

    def find_redelivered(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """The claimed entries that were in flight here all along, as they are recorded here: the server has
        counted one more delivery, though none went to another worker."""
        known = ((self._entries.get(one.entry_id), one) for one in deliveries)
        return [held for held, one in known if held is not None and held is not one and held.count == one.deliveries]

    def release(self, delivery: Delivery) -> None:
        """Forgets an entry: it is settled, or another worker owns it."""
        self._entries.pop(delivery.entry_id, None)
        self._released.add(delivery.entry_id)

    def about_to_read(self) -> None:
        """Entries released before a read cannot be in its answer."""
        self._released.clear()

    def entry_ids(self) -> list[bytes]:
        """A snapshot that is safe to take from another thread."""
        return list(self._entries)

    def note_heartbeat(self, asked_at: float, lost: Iterable[bytes]) -> None:
        """Records a heartbeat: when it was sent, and which entries are no longer ours."""
        self._kept_at = max(self._kept_at, asked_at)
        for entry_id in lost:
            if delivery := self._entries.get(entry_id):
                delivery.lost = True

    def lease_is_fresh(self, delivery: Delivery, now: float) -> bool:
        """Whether the entry is surely still ours without asking: no other worker can have claimed it so soon."""
        kept_at = self._kept_at
        # A heartbeat does not cover entries that arrived after it, and those may have waited in the socket for long.
        return now - (kept_at if kept_at >= delivery.held_at else delivery.read_at) < self._lease_s
