"""Entries that were delivered but have no consumer, because theirs was deleted manually."""

from __future__ import annotations

import logging

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine.runtime.clock import monotonic

_log = logging.getLogger("chasqui.consumer")


class Orphans:
    """Searches for them, and makes them reclaimable like those of dead workers."""

    def __init__(self, link: Link, member: GroupMember, claim_min_idle_ms: int) -> None:
        self._link = link
        self._member = member
        self._patience_s = claim_min_idle_ms / 1000
        self._seen_at: dict[bytes, float] = {}

    async def check(self) -> None:
        """Claims entries without a consumer after a live owner has had time to reclaim its own."""
        found = await group.list_orphans(self._link, self._member)
        now = monotonic()
        self._seen_at = {entry_id: self._seen_at.get(entry_id, now) for entry_id in found}
        ripe = [entry_id for entry_id, since in self._seen_at.items() if now - since >= self._patience_s]
        if ripe:
            lost = await group.heartbeat(self._link, self._member, ripe)
            _log.warning(
                "reclaimed %d orphaned entries of queue %s (was a consumer deleted manually?)",
                len(ripe) - len(lost),
                self._member.keys.queue,
            )
