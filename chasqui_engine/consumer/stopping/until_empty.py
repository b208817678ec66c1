"""A burst: the consumer stops when nothing is left for it to do."""

from __future__ import annotations

import asyncio
import logging

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import group, stats
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine.consumer.stopping.early_stop import EarlyStop
from chasqui_engine.values.config import ConsumerConfig

_log = logging.getLogger("chasqui.consumer")

_LOOK_EVERY_S = 0.05


class UntilEmpty:
    """Watches one queue for one consumer."""

    def __init__(self, link: Link, member: GroupMember, config: ConsumerConfig) -> None:
        self._link = link
        self._member = member
        self._delayed = config.delayed_enabled
        self._repeatables = config.run_scheduler

    async def watch(self, stop: EarlyStop) -> None:
        """Gives the signal when nothing waits, runs here, or is due; or when the queue is paused."""
        while await self.find_work():
            if await stats.is_paused(self._link, self._member.keys):
                _log.warning("queue %s is paused: the burst ends, and jobs are left", self._member.keys.queue)
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        stop.set()

    async def find_work(self) -> bool:
        """Whether there is anything to do."""
        work = await group.find_work(self._link, self._member, delayed=self._delayed, repeatables=self._repeatables)
        return any(work)
