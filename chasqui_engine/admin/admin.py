"""Reading and administering one queue: all that is done with it but adding jobs and working them off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from chasqui_engine._redis.client.connector import A_MOMENT_S, FOR_EVER, Connector
from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import dead_letters as dead_letters_commands
from chasqui_engine._redis.commands import delayed as delayed_commands
from chasqui_engine._redis.commands import results, stats
from chasqui_engine.admin import dead_letters, delayed, health, job_lookup, lists, snapshot
from chasqui_engine.admin.delayed import DelayedJob
from chasqui_engine.admin.health import QueueHealth
from chasqui_engine.admin.job_lookup import JobInfo
from chasqui_engine.admin.lists import ListedJob
from chasqui_engine.admin.snapshot import EVENTS_FOR_RATE, QueueCounts, QueueSnapshot
from chasqui_engine.config import ProducerConfig
from chasqui_engine.durations import When, when_ms
from chasqui_engine.errors import ConfigError, ShutdownError
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.job import DlqEntry, JobId
from chasqui_engine.results import ResultHub
from chasqui_engine.schedule import store
from chasqui_engine.schedule.spec import RepeatableMeta, RepeatableSpec
from chasqui_engine.validation import check_job_id


class QueueAdmin:
    """Reads and administers one queue; made by `await QueueAdmin.connect(…)`. One serves all tasks of a loop."""

    _ROLE = "admin"

    def __init__(self, connector: Connector, link: Link, config: ProducerConfig) -> None:
        self._connector = connector
        self._link = link
        self._config = config
        self._keys = connector.keys
        self._hub: ResultHub | None = None
        self._closed = False

    @classmethod
    async def connect(
        cls,
        redis_url: str | None = None,
        config: ProducerConfig | None = None,
        *,
        credential_provider: FetchCredentials | None = None,
        connection_patience: float | None = None,
    ) -> Self:
        """Connects; raises `RedisError` when the server cannot be reached.

        It waits `connection_patience` seconds for a server that is not there: 0 to connect and 5 later if left out.
        """
        config = config or ProducerConfig()
        connector = Connector(redis_url, config.queue_name, cls._ROLE, credential_provider)
        try:
            later_s = A_MOMENT_S if connection_patience is None else connection_patience
            return cls(connector, await connector.link(later_s).connect(connection_patience or 0), config)
        except BaseException:
            await connector.close()
            raise

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
        """Takes a delayed job back; True if it was still delayed, and now never runs."""
        return (await self.cancel_delayed_bulk([job_id]))[0]

    async def cancel_delayed_bulk(self, job_ids: Sequence[JobId]) -> list[bool]:
        """`cancel_delayed` for many, answers in order."""
        for job_id in job_ids:
            check_job_id(job_id)
        return await delayed_commands.cancel(self._open_link(), self._keys, job_ids)

    async def list_delayed(
        self, limit: int = 100, *, start: int = 0, payload_chars: int | None = None
    ) -> list[DelayedJob]:
        """Delayed jobs, the next to run first, with so much of their payloads."""
        start, limit = _checked_limit(start, "start"), _checked_limit(limit)
        link, keys = self._open_link(), self._keys
        return await delayed.list_next(link, keys, start=start, limit=limit, payload_chars=payload_chars)

    async def run_delayed_now(self, job_id: JobId) -> bool:
        """Lets a delayed job run now; True if it was still delayed."""
        return await delayed.run_now(self._open_link(), self._keys, self._config, check_job_id(job_id))

    async def reschedule_delayed(self, job_id: JobId, when: When) -> bool:
        """Gives a delayed job another time; True if it was still delayed."""
        at_ms = when_ms(when)
        return await delayed.reschedule(self._open_link(), self._keys, self._config, check_job_id(job_id), at_ms)

    # --- the queue ---

    async def pause(self) -> bool:
        """Lets workers take no more jobs until `resume`; what runs, runs on. True if it was not paused before."""
        return await stats.set_paused(self._open_link(), self._keys, True)

    async def resume(self) -> bool:
        """Ends a pause; True if there was one."""
        return await stats.set_paused(self._open_link(), self._keys, False)

    async def is_paused(self) -> bool:
        """Whether the queue is paused."""
        return await stats.is_paused(self._open_link(), self._keys)

    async def health(self, *, group: str = "default") -> QueueHealth:
        """What the server is, and whether the group's workers are there."""
        return await health.ask(self._open_link(), self._keys, group)

    async def counts(self, *, group: str = "default") -> QueueCounts:
        """How many jobs are where, all at one moment."""
        return await snapshot.read_counts(self._open_link(), self._keys, group)

    async def snapshot(self, *, group: str = "default", events: int = EVENTS_FOR_RATE) -> QueueSnapshot:
        """Counts, workers and throughput, which is told from up to so many events."""
        return await snapshot.take_snapshot(self._open_link(), self._keys, group, events=events)

    async def exists(self) -> bool:
        """Whether the server has anything of the queue: a job, an event, a repeatable or a pause, now or once."""
        return await stats.exists(self._open_link(), self._keys)

    # --- jobs and events ---

    async def get_job(
        self, job_id: JobId, *, group: str = "default", whole: bool = False, payload_chars: int | None = None
    ) -> JobInfo:
        """Where a job is, and what happened to it so far; see `JobInfo`. `whole` looks through all that waits."""
        link, keys = self._open_link(), self._keys
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
        """Jobs that wait, the next to run first, with so much of their payloads; after that entry, if it is given."""
        limit, link, keys = _checked_limit(limit), self._open_link(), self._keys
        return await lists.waiting(link, keys, group, after=after, limit=limit, payload_chars=payload_chars)

    async def list_active(
        self, limit: int = 100, *, group: str = "default", payload_chars: int | None = None
    ) -> list[ListedJob]:
        """Jobs in the hands of workers, the oldest first, with so much of their payloads."""
        limit, link, keys = _checked_limit(limit), self._open_link(), self._keys
        return await lists.active(link, keys, group, limit=limit, payload_chars=payload_chars)

    async def newest_events(
        self, limit: int = 1000, *, after: str = "0", before: str | None = None
    ) -> list[QueueEvent]:
        """Up to `limit` events after the one of that id, the newest first."""
        limit = _checked_limit(limit)
        return await lists.newest_events(self._open_link(), self._keys, after=after, before=before, limit=limit)

    async def events_of_job(self, job_id: JobId, limit: int = 1000) -> list[QueueEvent]:
        """What was told of a job, the oldest first, as far as the queue's events are kept and were looked at."""
        limit = _checked_limit(limit)
        return await lists.events_of_job(self._open_link(), self._keys, check_job_id(job_id), limit=limit)

    # --- dead letters ---

    async def peek_dlq(self, limit: int = 20) -> list[DlqEntry]:
        """Up to `limit` dead letters, oldest first."""
        return await dead_letters.peek(self._open_link(), self._keys, _checked_limit(limit))

    async def replay_dlq(self, limit: int = 100) -> int:
        """Moves up to `limit` dead letters back to the stream, attempts reset; returns how many."""
        return (await dead_letters.replay(self._open_link(), self._keys, _checked_limit(limit))).moved

    async def replay_dead(self, entries: Sequence[DlqEntry]) -> int:
        """Moves these dead letters back to the stream, attempts reset; returns how many were still there to move."""
        return (await dead_letters.replay_these(self._open_link(), self._keys, entries)).moved

    async def delete_dead(self, dlq_ids: Sequence[str]) -> int:
        """Deletes dead letters for good; returns how many were still there."""
        return await dead_letters_commands.delete(self._open_link(), self._keys, dlq_ids) if dlq_ids else 0

    async def page_dlq(self, after: str | None, limit: int = 500) -> list[DlqEntry]:
        """Up to `limit` dead letters after the one of that id, None for the first; oldest first."""
        return await dead_letters_commands.list_oldest(
            self._open_link(), self._keys, count=_checked_limit(limit), after=after
        )

    async def page_newest_dlq(self, before: str | None, limit: int = 500) -> list[DlqEntry]:
        """Up to `limit` dead letters before the one of that id, None for the last; newest first."""
        link = self._open_link()
        return await dead_letters_commands.list_newest(link, self._keys, count=_checked_limit(limit), before=before)

    async def get_dead(self, dlq_ids: Sequence[str]) -> list[DlqEntry]:
        """These dead letters, as far as they are still there."""
        return await dead_letters_commands.get_dead_letters(self._open_link(), self._keys, dlq_ids) if dlq_ids else []

    # --- repeatables and results ---

    async def upsert_repeatable(self, spec: RepeatableSpec) -> str:
        """Stores a repeatable spec; returns its key."""
        return await store.upsert(self._open_link(), self._keys, spec)

    async def list_repeatable(self, limit: int = 100) -> list[RepeatableMeta]:
        """Up to `limit` specs, the next to fire first."""
        return await store.list_all(self._open_link(), self._keys, _checked_limit(limit))

    async def remove_repeatable(self, key: str) -> bool:
        """Removes a spec by its key; True if there was one."""
        return await store.remove(self._open_link(), self._keys, key)

    async def get_result(self, job_id: JobId) -> bytes | None:
        """A stored result as MessagePack, None if there is none (yet, or any more)."""
        return (await self.get_result_bulk([job_id]))[0]

    async def get_result_bulk(self, job_ids: Sequence[JobId]) -> list[bytes | None]:
        """`get_result` for many, answers in order."""
        return await results.get_results(self._open_link(), self._keys, job_ids)

    async def wait_for_result(self, job_id: JobId, timeout: float) -> Any:
        """What the job's handler returned, as soon as it is there; see `Job.wait_for_result`."""
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigError(f"timeout must be a positive number of seconds, got {timeout!r}")
        link = self._open_link()
        if self._hub is None:
            self._hub = ResultHub(link, self._connector.link(FOR_EVER), self._keys)
        return await self._hub.wait(job_id, timeout)

    async def close(self) -> None:
        """Closes the connections. What was added stays added."""
        self._closed = True
        if self._hub is not None:
            await self._hub.close()
        await self._connector.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ShutdownError(f"this {self._ROLE} is closed")

    def _open_link(self) -> Link:
        self._check_open()
        return self._link


def _checked_limit(limit: int, field: str = "limit") -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise ConfigError(f"{field} must be a whole number from 0 up, got {limit!r}")
    return limit
