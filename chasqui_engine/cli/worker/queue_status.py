"""The counts of a queue, as text for a worker's status line."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

from chasqui_engine import ChasquiError
from chasqui_engine.cli.outage import ride_out
from chasqui_engine.runtime.aio import cancel_and_wait

if TYPE_CHECKING:
    from chasqui_engine import Producer

_EVERY_S = 0.5


class QueueStatus:
    """Reads the counts of a queue beside the worker; `text` is the latest, or how long the server has been away."""

    def __init__(self, url: str | None, queue: str, group: str) -> None:
        self._url = url
        self._queue = queue
        self._group = group
        self._producer: Producer | None = None
        self._reading: asyncio.Task[None] | None = None
        self.text = "connecting"

    async def _read(self) -> str:
        # Without a terminal none of this is needed, and a worker starts sooner without it.
        from chasqui_engine import Producer, ProducerConfig

        if self._producer is None:
            self._producer = await Producer.connect(self._url, ProducerConfig(queue_name=self._queue))
        seen = await self._producer.snapshot(group=self._group, events=1)
        counts = seen.counts
        paused = "PAUSED · " if counts.paused else ""
        return f"{paused}{counts.waiting:,} waiting · {seen.running:,} active · {counts.delayed:,} delayed"

    def _say_waiting(self, seconds: float) -> None:
        self.text = f"no answer from the server for {seconds:.0f} s · retrying"

    async def _read_on(self) -> None:
        while True:
            try:
                self.text = await ride_out(self._read, self._say_waiting)
            except ChasquiError as err:
                # The worker itself fails on real problems; the status line does not end it.
                self.text = f"no counts: {err.args[0] if err.args else err}"
            await asyncio.sleep(_EVERY_S)

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read_on())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_and_wait(self._reading)
        if self._producer is not None:
            await self._producer.close()
