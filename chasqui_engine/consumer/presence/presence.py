"""A worker's entry among the workers of its queue: written while it lives, taken away when it stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable
from typing import Any

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import workers
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine.consumer.buffer import PrefetchBuffer
from chasqui_engine.consumer.in_flight import InFlight
from chasqui_engine.consumer.presence import facts
from chasqui_engine.runtime.aio import sleep_until
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.config import ConsumerConfig
from chasqui_engine.values.errors import error_text

_log = logging.getLogger("chasqui.consumer")

_LOOK_EVERY_S = 1.0
"""How soon a change of its numbers is reported."""
_TELL_EVERY_S = 10.0
"""How often it reports without one."""
_LEAVES_WITHIN_S = 0.5


class Presence:
    """Tells where the worker is and how much it runs, over the heartbeat's connection and in its thread: a handler that
    blocks the event loop does not silence it."""

    def __init__(
        self,
        member: GroupMember,
        config: ConsumerConfig,
        handler: Callable[..., Any],
        in_flight: InFlight,
        buffer: PrefetchBuffer,
    ) -> None:
        self._member = member
        self._concurrency = config.concurrency
        self._in_flight = in_flight
        self._buffer = buffer
        self._facts = facts.static_facts(config, handler)
        self._warned = False

    async def run(self, link: Link, stop: asyncio.Event) -> None:
        """Until cancelled."""
        facts.join(self._member.keys.queue)
        told: tuple[int, int] | None = None
        told_at = 0.0
        try:
            while True:
                counts, now = self._counts(), monotonic()
                if counts != told or now - told_at >= _TELL_EVERY_S:
                    await self._tell(link, counts, first=told is None)
                    told, told_at = counts, now
                await sleep_until(stop, _LOOK_EVERY_S)
        finally:
            facts.leave(self._member.keys.queue)

    async def leave(self, link: Link) -> None:
        """Takes the entry away; if that fails, it is seen as dead for an hour."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LEAVES_WITHIN_S):
                await workers.leave(link, self._member.keys, self._member.consumer)

    def _counts(self) -> tuple[int, int]:
        """(running, buffered); read from another thread, so each is right by itself."""
        buffered = len(self._buffer)
        running = min(self._concurrency - self._buffer.idle, len(self._in_flight) - buffered)
        return max(0, running), buffered

    async def _tell(self, link: Link, counts: tuple[int, int], *, first: bool) -> None:
        running, buffered = counts
        said = {**self._facts, "queues": facts.queues_here(), "running": running, "buffered": buffered}
        member = self._member
        try:
            await workers.beat(link, member.keys, member.consumer, json.dumps(said), first=first)
        except Exception as err:  # noqa: BLE001 - an ACL of an earlier version, say: nobody sees the worker, but it works
            if not self._warned:
                self._warned = True
                _log.info("worker %s cannot be shown among its queue's workers: %s", member.consumer, error_text(err))
