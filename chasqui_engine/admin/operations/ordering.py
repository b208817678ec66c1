"""The operations on the order of a queue's jobs."""

from __future__ import annotations

from chasqui_engine._redis.commands import delayed
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine.admin.job_lookup import SEARCHED
from chasqui_engine.admin.operations.base import Operations
from chasqui_engine.values.job import MOST_PRIORITY, JobId
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
