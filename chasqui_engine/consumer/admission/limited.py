"""Reads while the queue has limits: never more than they allow all workers together, and only what starts at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands.admission import limits
from chasqui_engine._redis.commands.admission.limits import Taken
from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine.consumer.admission.room import wait_for_room
from chasqui_engine.consumer.context import ConsumerContext
from chasqui_engine.runtime.clock import monotonic

_LOOK_S = 0.05
"""How soon a slot is seen that another worker's job has left."""
_LONGEST_BLOCK_MS = 200
"""Jobs that wait beside the stream do not end a wait on it."""


class LimitedReads:
    """What the reader does instead of reading freely."""

    def __init__(
        self, context: ConsumerContext, reads: Link, accept: Callable[[list[Delivery]], Awaitable[None]]
    ) -> None:
        self._context = context
        self._reads = reads
        self._accept = accept
        self._held_back = False
        self._taking: asyncio.Task[Taken] | None = None

    @property
    def is_taking(self) -> bool:
        """Whether entries may be ours that are not recorded yet."""
        return self._taking is not None and not self._taking.done()

    async def read(self) -> None:
        """Reads within the limits until cancelled."""
        context = self._context
        while True:
            count = await wait_for_room(context)
            # It ends by itself when the reader is cancelled: what it was given is recorded.
            self._taking = asyncio.create_task(self._take(count), name="chasqui-take")
            taken = await asyncio.shield(self._taking)
            self._held_back = taken.why_none == "rate" or (self._held_back and not taken.deliveries)
            if taken.why_none == "rate":
                await asyncio.sleep(taken.wait_ms / 1000)
            elif taken.why_none == "slots":
                await self._wait_for_slot()
            elif taken.why_none == "empty":
                block_ms = min(context.config.block_ms, _LONGEST_BLOCK_MS)
                await limits.wait_for_entry(self._reads, context.member.keys, taken.last, block_ms)

    async def _take(self, count: int) -> Taken:
        context = self._context
        context.in_flight.about_to_read()
        taken = await limits.take(
            context.link,
            context.member,
            count,
            read_at=monotonic(),
            events_max=context.config.events_max,
            tell=not self._held_back,
        )
        await self._accept(taken.deliveries)
        return taken

    async def _wait_for_slot(self) -> None:
        with contextlib.suppress(TimeoutError):  # another worker's job may have ended
            await asyncio.wait_for(self._context.buffer.wait_for_idle_or_room(), _LOOK_S)
