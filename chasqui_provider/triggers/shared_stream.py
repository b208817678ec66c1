"""The queue's side of a shared stream (Airflow 3.3 and later)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from typing import Any

from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamProducer

from chasqui_provider.asset_events.job_stream import Batch, Handover, JobStream


class JobStreamProducer(SharedStreamProducer):
    """Feeds batches of jobs to the triggers that share them, and settles the jobs as those resolve."""

    def __init__(self, open_stream: Callable[[], Awaitable[JobStream]]) -> None:
        self._open = open_stream
        self._batches: Any = None

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yields ((batch, queue's name), batch) forever."""
        stream = await self._open()
        self._batches = stream.batches()
        async for batch in self._batches:
            yield (batch, stream.queue_name), batch

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Settles the jobs of resolved batches."""
        for item in batch:
            item.broker_payload.settle(verdict_on(item.broker_payload, item.outcome))

    def get_advance_lane(self, broker_payload: Any) -> Hashable:
        """Resolves each batch separately: stream entries are acked one by one, in any order."""
        return id(broker_payload)

    async def aclose(self) -> None:
        """Releases the jobs that have no verdict."""
        if self._batches is not None:
            # The poll that was cancelled may still be inside the generator.
            await asyncio.sleep(0)
            await self._batches.aclose()


def verdict_on(batch: Batch, outcome: AdvanceOutcome) -> Handover:
    """The verdict on a batch that all triggers have finished with."""
    if outcome.rejected:
        return Handover.REJECTED
    # A trigger that is cancelled between taking a batch and passing it on counts as having accepted it.
    if outcome.is_clean and batch.handed_on >= outcome.acked:
        return Handover.STORED
    return Handover.FAILED
