"""The operations on the order of a queue's jobs."""

from __future__ import annotations

from chasqui_engine._redis.commands import delayed
from chasqui_engine._redis.commands.admission import limits, priorities
from chasqui_engine.admin.job_lookup import SEARCHED
from chasqui_engine.admin.operations.base import Operations
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import MOST_PRIORITY, JobId
from chasqui_engine.values.limits import UNLIMITED, QueueLimits
from chasqui_engine.values.validation import check_job_id, check_whole_number


class OrderOperations(Operations):
    """The part of `QueueOperations` that concerns which job is next."""

    async def change_priority(self, job_id: JobId, priority: int) -> bool:
        """Gives a prioritized or delayed job another priority, behind all that have it; 0 is the first.

        False if it is not there any more, or on the stream: what waits there is next already.
        """
        check_whole_number(priority, "priority", most=MOST_PRIORITY)
        link, keys = await self._open_link(), self._keys
        found = await delayed.find_delayed(link, keys, check_job_id(job_id), at_most=SEARCHED)
        return found is not None and await priorities.change(link, keys, job_id, found[0], priority)

    async def set_limits(self, *, rate: tuple[int, float] | None = None, concurrency: int | None = None) -> QueueLimits:
        """Limits the queue, for all workers together: with `rate=(100, 1)` at most 100 jobs begin per second, and
        `concurrency` of them run at once. What is left out is not limited any more.
        """
        chosen = QueueLimits(rate, concurrency)
        if chosen == UNLIMITED:
            raise ConfigError("set_limits needs rate=(jobs, seconds) or concurrency; clear_limits takes limits away")
        await limits.set_limits(await self._open_link(), self._keys, chosen)
        return chosen

    async def get_limits(self) -> QueueLimits:
        """The limits of the queue."""
        return await limits.get_limits(await self._open_link(), self._keys)

    async def clear_limits(self) -> bool:
        """Takes the limits away; True if there were any."""
        return await limits.set_limits(await self._open_link(), self._keys, UNLIMITED)
