"""Sends the batches of `chasqui bulk`, a few at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from chasqui_engine import Producer
from chasqui_engine.values.job import Addition, Moment

_IN_FLIGHT = 4


class Sending:
    """The batches in flight, and how many rows have arrived."""

    def __init__(self, producer: Producer, moment: Moment | None) -> None:
        self._producer = producer
        self._moment = moment
        self._in_flight: set[asyncio.Task[None]] = set()
        self.confirmed = 0
        """Rows that the server has, from this run or an earlier one."""

    @property
    def added(self) -> int:
        """Jobs that did not exist before."""
        return self._producer.added

    async def send(self, batch: Sequence[Addition]) -> None:
        """Sends a batch as soon as there is room; raises the failure of an earlier one."""
        if len(self._in_flight) >= _IN_FLIGHT:
            await self._some(asyncio.FIRST_COMPLETED)
        self._in_flight.add(asyncio.create_task(self._add(batch)))
        # Lets the task start, and a Ctrl-C arrive.
        await asyncio.sleep(0)

    async def drain(self) -> None:
        """Waits for all of them; raises the first failure."""
        while self._in_flight:
            await self._some(asyncio.ALL_COMPLETED)

    async def settle(self) -> None:
        """Waits for the batches in flight after an interruption; `added` shows how many arrived."""
        await asyncio.gather(*self._in_flight, return_exceptions=True)

    async def _some(self, until: str) -> None:
        ended, self._in_flight = await asyncio.wait(self._in_flight, return_when=until)
        failures = [err for task in ended if (err := task.exception()) is not None]
        if failures:
            raise failures[0]

    async def _add(self, batch: Sequence[Addition]) -> None:
        if self._moment is None:
            await self._producer.add_now(batch)
        else:
            await self._producer.add_later(batch, [self._moment] * len(batch))
        self.confirmed += len(batch)
