"""Reading and administering a queue: everything except adding and running jobs."""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine._redis.commands import delayed as delayed_commands
from chasqui_engine._redis.commands import results, stats
from chasqui_engine.admin import (
    delayed,
    health,
    history,
    job_logs,
    job_lookup,
    lists,
    pages,
    snapshot,
)
from chasqui_engine.admin.delayed import DelayedJob
from chasqui_engine.admin.health import QueueHealth
from chasqui_engine.admin.history import PastOutcome
from chasqui_engine.admin.job_lookup import JobInfo
from chasqui_engine.admin.lists import ListedJob
from chasqui_engine.admin.operations.aborting import AbortOperations
from chasqui_engine.admin.operations.dead_letters import DeadLetterOperations
from chasqui_engine.admin.operations.history import HistoryOperations
from chasqui_engine.admin.operations.ordering import OrderOperations
from chasqui_engine.admin.operations.removing import RemovalOperations
from chasqui_engine.admin.operations.repeatables import RepeatableOperations
from chasqui_engine.admin.pages import CountState, PageState
from chasqui_engine.admin.snapshot import EVENTS_FOR_RATE, QueueCounts, QueueSnapshot
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.values.durations import When, when_ms
from chasqui_engine.values.job import Job, JobId
from chasqui_engine.values.validation import LARGEST, check_job_id, check_limit, check_whole_number


class QueueOperations(
    AbortOperations, OrderOperations, RemovalOperations, DeadLetterOperations, RepeatableOperations, HistoryOperations
):
    """The operations shared by `Queue`, `SyncQueue`, `Producer` and `QueueAdmin`; each opens a link in its own way."""

    @property
    def stream_key(self) -> str:
        """Key of the stream of waiting jobs."""
        return self._keys.stream

    @property
    def delayed_key(self) -> str:
        """Key of the set of delayed jobs."""
        return self._keys.delayed

    @property
    def dlq_key(self) -> str:
        """Key of the stream of dead letters."""
        return self._keys.dlq

    # --- delayed jobs ---

    async def cancel_delayed(self, job_id: JobId) -> bool:
        """Cancels a delayed job; True if it was still delayed and so will never run."""
        return (await self.cancel_delayed_bulk([job_id]))[0]

    async def cancel_delayed_bulk(self, job_ids: Sequence[JobId]) -> list[bool]:
        """`cancel_delayed` for many, answers in order."""
        for job_id in job_ids:
            check_job_id(job_id)
        return await delayed_commands.cancel(await self._open_link(), self._keys, job_ids)

    async def list_delayed(
        self, limit: int = 100, *, start: int = 0, payload_chars: int | None = None
    ) -> list[DelayedJob]:
        """Delayed jobs, the next to run first, with `payload_chars` of their payloads (all by default)."""
        start, limit = check_whole_number(start, "start"), check_limit(limit)
        link, keys = await self._open_link(), self._keys
        return await delayed.list_next(link, keys, start=start, limit=limit, payload_chars=payload_chars)

    async def run_delayed_now(self, job_id: JobId) -> bool:
        """Runs a delayed job now; True if it was still delayed."""
        return await delayed.run_now(await self._open_link(), self._keys, self._config, check_job_id(job_id))

    async def reschedule_delayed(self, job_id: JobId, when: When) -> bool:
        """Moves a delayed job to another time; True if it was still delayed."""
        at_ms = when_ms(when)
        return await delayed.reschedule(await self._open_link(), self._keys, self._config, check_job_id(job_id), at_ms)

    # --- the queue ---

    async def pause(self) -> bool:
        """Stops workers from taking jobs until `resume`; running jobs continue. True if it was not paused before."""
        return await stats.set_paused(await self._open_link(), self._keys, True)

    async def resume(self) -> bool:
        """Ends a pause; True if there was one."""
        return await stats.set_paused(await self._open_link(), self._keys, False)

    async def is_paused(self) -> bool:
        """Whether the queue is paused."""
        return await stats.is_paused(await self._open_link(), self._keys)

    async def health(self, *, group: str = "default") -> QueueHealth:
        """The server, and whether the group's workers are alive."""
        return await health.read_health(await self._open_link(), self._keys, group)

    async def counts(self, *, group: str = "default") -> QueueCounts:
        """The number of jobs in each state, at one moment."""
        return await snapshot.read_counts(await self._open_link(), self._keys, group)

    async def snapshot(self, *, group: str = "default", events: int = EVENTS_FOR_RATE) -> QueueSnapshot:
        """Counts, workers and throughput, which is computed from up to `events` events."""
        return await snapshot.take_snapshot(await self._open_link(), self._keys, group, events=events)

    async def exists(self) -> bool:
        """Whether the server knows the queue: it has or had a job, an event, a repeatable or a pause."""
        return await stats.exists(await self._open_link(), self._keys)

    # --- jobs and events ---

    async def get_job(
        self, job_id: JobId, *, group: str = "default", whole: bool = False, payload_chars: int | None = None
    ) -> JobInfo:
        """The state and history of a job; see `JobInfo`. `whole` searches all waiting jobs."""
        link, keys = await self._open_link(), self._keys
        return await job_lookup.find_job(
            link, keys, group, check_job_id(job_id), whole=whole, payload_chars=payload_chars
        )

    async def list_waiting(
        self,
        limit: int = 100,
        *,
        after: str | None = None,
        group: str = "default",
        payload_chars: int | None = None,
    ) -> list[ListedJob]:
        """Waiting jobs, the next to run first, with `payload_chars` of their payloads; `after` is a cursor."""
        limit, link, keys = check_limit(limit), await self._open_link(), self._keys
        return await lists.list_waiting(link, keys, group, after=after, limit=limit, payload_chars=payload_chars)

    async def list_active(
        self, limit: int = 100, *, group: str = "default", payload_chars: int | None = None
    ) -> list[ListedJob]:
        """Jobs in flight, the oldest first, with `payload_chars` of their payloads."""
        limit, link, keys = check_limit(limit), await self._open_link(), self._keys
        return await lists.list_active(link, keys, group, limit=limit, payload_chars=payload_chars)

    async def newest_events(
        self, limit: int = 1000, *, after: str = "0", before: str | None = None
    ) -> list[QueueEvent]:
        """Up to `limit` events after the one with the id `after`, newest first."""
        limit = check_limit(limit)
        return await lists.list_newest_events(
            await self._open_link(), self._keys, after=after, before=before, limit=limit
        )

    async def page_events(self, after: str = "0", limit: int = 500) -> list[QueueEvent]:
        """Up to `limit` events after the one with the id `after`, oldest first."""
        return await lists.list_events(await self._open_link(), self._keys, after, limit=check_limit(limit))

    async def events_of_job(self, job_id: JobId, limit: int = 1000) -> list[QueueEvent]:
        """The events of a job, the oldest first, among the newest 10,000 that the queue keeps."""
        limit = check_limit(limit)
        return await lists.list_events_of_job(await self._open_link(), self._keys, check_job_id(job_id), limit=limit)

    async def get_job_logs(
        self, job_id: JobId, *, start: int = 0, end: int = -1, asc: bool = True
    ) -> tuple[list[str], int]:
        """What handlers wrote with `Job.log`: the lines from `start` to `end`, both included, and how many there are.

        They are counted from the oldest line, with `asc=False` from the newest; negative ones from the other end.
        """
        for value, field in ((start, "start"), (end, "end")):
            check_whole_number(value, field, least=-LARGEST)
        link, keys = await self._open_link(), self._keys
        return await job_logs.read_lines(link, keys, check_job_id(job_id), start=start, end=end, asc=asc)

    async def find_outcomes(self, job_ids: Sequence[JobId], *, since_ms: int = 0) -> dict[JobId, PastOutcome]:
        """The last event of each job since a given time; jobs without events are left out."""
        return await history.find_outcomes(await self._open_link(), self._keys, job_ids, since_ms=since_ms)

    async def get_jobs(
        self,
        state: PageState = "waiting",
        offset: int = 0,
        limit: int = 100,
        cursor: str | None = None,
        *,
        group: str = "default",
    ) -> list[Job]:
        """The first page of `get_jobs_page`, or the one after a cursor."""
        return (await self.get_jobs_page(state, offset=offset, limit=limit, cursor=cursor, group=group))[0]

    async def get_jobs_page(
        self,
        state: PageState = "waiting",
        *,
        offset: int = 0,
        limit: int = 100,
        cursor: str | None = None,
        group: str = "default",
    ) -> tuple[list[Job], str | None]:
        """Jobs that are `waiting`, `active`, `delayed`, `prioritized` or `failed` (dead letters), and the next page's
        cursor.

        The cursor is None at the end. What cannot be read is left out, so a page may be shorter than `limit`.
        `offset` skips jobs where there is no cursor.
        """
        offset, limit = check_whole_number(offset, "offset"), check_limit(limit)
        link, keys = await self._open_link(), self._keys
        return await pages.read_page(link, keys, group, state, offset=offset, limit=limit, cursor=cursor)

    async def get_job_counts(self, *states: CountState, group: str = "default") -> dict[str, int]:
        """The number of jobs by state: `waiting`, `active`, `delayed`, `prioritized`, `completed`, `failed` (dead
        letters), `paused`.

        `paused` is 1 or 0. `completed` counts results, which scans every key of the server: name the states
        that you need, or use `counts`.
        """
        return await pages.count_jobs(await self._open_link(), self._keys, group, states)

    # --- results ---

    async def get_result(self, job_id: JobId) -> bytes | None:
        """A stored result as MessagePack; None before it is stored, and after it expired."""
        return (await self.get_result_bulk([job_id]))[0]

    async def get_result_bulk(self, job_ids: Sequence[JobId]) -> list[bytes | None]:
        """`get_result` for many, answers in order."""
        return await results.get_results(await self._open_link(), self._keys, job_ids)
