"""The operations that delete jobs."""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine.admin import removal
from chasqui_engine.admin.operations.base import Operations
from chasqui_engine.admin.removal import CleanState
from chasqui_engine.values.job import JobId
from chasqui_engine.values.validation import check_job_id, check_limit, check_whole_number


class RemovalOperations(Operations):
    """The part of `QueueOperations` that deletes jobs, and never those that run."""

    async def remove(self, job_id: JobId, *, group: str = "default") -> int:
        """Deletes a job unless it is running; returns in how many places it was: see `remove_report`."""
        report = await self.remove_report(job_id, group=group)
        return sum(report[place] for place in ("delayed", "stream", "dlq", "result"))

    async def remove_report(self, job_id: JobId, *, group: str = "default") -> dict[str, bool]:
        """Deletes a job from all places and frees its id; says where it was: `delayed`, `stream`, `dlq`, `result`.

        `active` means that it is running and was left alone.
        """
        link, keys, events_max = await self._open_link(), self._keys, self._config.events_max
        return await removal.remove(link, keys, group, check_job_id(job_id), events_max=events_max)

    async def remove_waiting(self, entry_ids: Sequence[str], *, group: str = "default") -> int:
        """Deletes waiting jobs by their entry ids, as `list_waiting` has them; returns how many. Running ones stay."""
        link, keys, events_max = await self._open_link(), self._keys, self._config.events_max
        return await removal.remove_entries(link, keys, group, entry_ids, events_max=events_max)

    async def drain(self, delayed: bool = True, *, group: str = "default") -> int:
        """Deletes all waiting jobs, and unless `delayed=False` all delayed ones; returns how many. Running jobs stay.

        Jobs added during the call stay too.
        """
        link, keys, events_max = await self._open_link(), self._keys, self._config.events_max
        return await removal.drain(link, keys, group, events_max=events_max, with_delayed=delayed)

    async def clean(
        self, grace_ms: int, limit: int, state: CleanState = "completed", *, group: str = "default"
    ) -> list[JobId]:
        """Deletes up to `limit` jobs of a state that are older than `grace_ms`; returns their ids.

        The age of a `waiting` job is its time on the stream, of a `delayed` one the time since it was created, of a
        `failed` one the time since it died. `completed` deletes results of any age, `active` nothing.
        """
        grace_ms, limit = check_whole_number(grace_ms, "grace_ms"), check_limit(limit)
        link, keys, events_max = await self._open_link(), self._keys, self._config.events_max
        return await removal.clean(
            link, keys, group, grace_ms=grace_ms, limit=limit, state=state, events_max=events_max
        )

    async def obliterate(self, *, force: bool = False) -> int:
        """Deletes the queue: jobs, dead letters, results, events, repeatables; returns the number of keys.

        Raises `QueueBusyError`, and deletes nothing, when jobs run; with `force` they end unrecorded. Jobs that are
        added during the call may lose what keeps their ids unique.
        """
        return await removal.obliterate(await self._open_link(), self._keys, force=force)
