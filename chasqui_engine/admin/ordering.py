"""The operations on the order of a queue's jobs."""

from __future__ import annotations

import asyncio

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import delayed
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin.job_lookup import SEARCHED, delayed_job
from chasqui_engine.admin.repeatables import RepeatableOperations
from chasqui_engine.values.job import MOST_PRIORITY, Job, JobId
from chasqui_engine.values.validation import check_job_id, check_whole_number


class OrderOperations(RepeatableOperations):
    """The part of `QueueOperations` that concerns which job is next."""

    async def change_priority(self, job_id: JobId, priority: int) -> bool:
        """Gives a prioritized or delayed job another priority, behind all that have it; 0 is the first.

        False if it is not there any more, or on the stream: what waits there is next already.
        """
        check_whole_number(priority, "priority", most=MOST_PRIORITY)
        link, keys = await self._open_link(), self._keys
        found = await delayed.find_delayed(link, keys, check_job_id(job_id), at_most=SEARCHED)
        return found is not None and await priorities.change(link, keys, job_id, found[0], priority)


async def list_prioritized(
    link: Link, keys: QueueKeys, *, after: str | None, start: int, limit: int
) -> tuple[list[Job], str | None]:
    """Jobs that wait for their priority's turn, the first to run first; and the cursor of the next page."""
    found = await priorities.list_staged(link, keys, after=after, start=start, count=limit)
    jobs = await asyncio.to_thread(lambda: [delayed_job(member) for _, member, _ in found])
    for (_, _, rank), job in zip(found, jobs, strict=True):
        if job is not None:
            job.priority = priorities.priority_of(rank)
    return [job for job in jobs if job is not None], found[-1][2] if len(found) == limit else None
