"""Stopping jobs that somebody has asked to abort: their entries are marked in Redis.

Handlers in the event loop are cancelled, which also kills those in processes; those in threads may look at
`Job.aborting`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine._redis.commands.removal import aborts
from chasqui_engine.consumer.context import ConsumerContext
from chasqui_engine.consumer.settlement import Settler
from chasqui_engine.consumer.verdict import abort_unbegun
from chasqui_engine.values.errors import ChasquiError
from chasqui_engine.values.job import ABORT_ASKED, ABORT_TOLD, Job

_log = logging.getLogger("chasqui.consumer")

_LOOK_EVERY_S = 0.2


class Aborts:
    """The jobs of this worker that are to be aborted."""

    def __init__(self, context: ConsumerContext, settler: Settler) -> None:
        self._link = context.link
        self._keys = context.member.keys
        self._config = context.config
        self._in_flight = context.in_flight
        self._buffer = context.buffer
        self._settler = settler

    async def keep_looking(self) -> None:
        """Stops marked jobs until cancelled."""
        while True:
            try:
                await self.stop_marked()
            except ChasquiError as err:
                _log.warning("cannot read which jobs of queue %s are to be aborted: %s", self._keys.queue, err)
                return
            await asyncio.sleep(_LOOK_EVERY_S)

    async def stop_marked(self) -> None:
        """Stops what is in flight here and is marked."""
        for entry_id in await aborts.find_marked(self._link, self._keys, self._in_flight.entry_ids()):
            delivery = self._in_flight.find(entry_id)
            if delivery is not None and not delivery.lost:
                self._stop(delivery)

    async def note_marked(self, deliveries: Sequence[Delivery]) -> None:
        """Keeps those from beginning that are marked."""
        marked = set(await aborts.find_marked(self._link, self._keys, [one.entry_id for one in deliveries]))
        for delivery in deliveries:
            delivery.aborting = delivery.entry_id in marked

    def _stop(self, delivery: Delivery) -> None:
        if delivery.run is not None:
            _stop_run(*delivery.run)
            return
        # Either it is about to begin, or it has ended and is being settled.
        delivery.aborting = True
        if self._buffer.remove(delivery):
            verdict = abort_unbegun(delivery, self._config)
            if verdict is None:
                self._buffer.put([delivery])
            else:
                self._settler.drop(verdict)


def _stop_run(task: asyncio.Task[Any] | None, job: Job) -> None:
    if job._in_thread:
        job._abort = job._abort or ABORT_ASKED
    elif job._abort != ABORT_TOLD and task is not None:
        # Once: a second cancellation would interrupt how the handler cleans up after the first.
        job._abort = ABORT_TOLD
        task.cancel()
