"""Takes jobs that wait beside the stream for their priority's turn: no more of them than start at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from chasqui_engine._redis.client.link import CommandError
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.admission.priorities import Taken
from chasqui_engine.consumer.admission.room import wait_for_room
from chasqui_engine.consumer.context import ConsumerContext
from chasqui_engine.runtime.clock import monotonic

_log = logging.getLogger("chasqui.consumer")

_OTHERS_PAUSE_S = 0.005
"""While other jobs wait on the stream, which the reader takes, or the one of another worker."""
_LOG_AGAIN_S = 60.0


class StagedJobs:
    """The taker of staged jobs; it rests while the queue has none."""

    def __init__(self, context: ConsumerContext, accept: Callable[[Taken], Awaitable[None]]) -> None:
        self._context = context
        self._accept = accept
        self._awake = asyncio.Event()
        self._paused = False
        self._warned_at = -_LOG_AGAIN_S
        self.is_taking = False
        """Whether entries may be ours that are not recorded yet."""

    def wake(self) -> None:
        """There may be staged jobs."""
        if not self._paused:
            self._awake.set()

    def pause(self, paused: bool) -> None:
        """Takes none from now on, or may again."""
        self._paused = paused
        if paused:
            self._awake.clear()

    async def run(self) -> None:
        """Takes staged jobs until cancelled."""
        while True:
            await self._awake.wait()
            count = await wait_for_room(self._context)
            if not self._awake.is_set():  # paused meanwhile
                continue
            if not await self._take(count):
                # The reader looks several times a second whether there are any.
                self._awake.clear()

    async def _take(self, count: int) -> bool:
        """Takes so many at most; False if there is nothing to take."""
        context = self._context
        self.is_taking = True
        try:
            taken = await priorities.take(context.link, context.member, count, read_at=monotonic())
            # What the server has given the reader before is accepted before.
            await asyncio.sleep(0)
            await self._accept(taken)
        except CommandError as err:
            # The reader makes a group that is gone; without the permission, jobs come when they have waited too long.
            self._log_refused(err)
            return False
        finally:
            self.is_taking = False
        if taken.others_wait:
            await asyncio.sleep(_OTHERS_PAUSE_S)
        return bool(taken.deliveries) or taken.others_wait

    def _log_refused(self, err: CommandError) -> None:
        if monotonic() - self._warned_at >= _LOG_AGAIN_S:
            self._warned_at = monotonic()
            _log.warning("queue %s: jobs with a priority cannot be taken: %s", self._context.queue, err)
