"""Batches of `chasqui bulk` on their way to the server, a few at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chasqui_engine.enqueue import Addition, Moment
from chasqui_engine.producer import Producer

_IN_FLIGHT = 4


class Sending:
    """What is under way, and how much has arrived."""

    def __init__(self, producer: Producer, moment: Moment | None) -> None:
        self._producer = producer
        self._moment = moment
        self._under_way: set[asyncio.Task[None]] = set()
        self.confirmed = 0
        """Rows that the server has, from this run or one before."""

    @property
    def added(self) -> int:
        """Jobs that were not there before."""
        return self._producer.added

    async def send(self, batch: Sequence[Addition]) -> None:
        """Sends a batch as soon as there is room; raises what became of one before it."""
        if len(self._under_way) >= _IN_FLIGHT:
            await self._some(asyncio.FIRST_COMPLETED)
        self._under_way.add(asyncio.create_task(self._add(batch)))
        # Lets what was just made leave, and a Ctrl-C be heard.
        await asyncio.sleep(0)

    async def drain(self) -> None:
        """Waits for all of them; raises the first failure."""
        while self._under_way:
            await self._some(asyncio.ALL_COMPLETED)

    async def settle(self) -> None:
        """Waits for what is still under way after a break; how that went is told by what was added."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _some(self, until: str) -> None:
        ended, self._under_way = await asyncio.wait(self._under_way, return_when=until)
        failures = [err for task in ended if (err := task.exception()) is not None]
        if failures:
            raise failures[0]

    async def _add(self, batch: Sequence[Addition]) -> None:
        if self._moment is None:
            await self._producer.add_now(batch)
        else:
            await self._producer.add_later(batch, [self._moment] * len(batch))
        self.confirmed += len(batch)
