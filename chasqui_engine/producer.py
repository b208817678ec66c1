"""The producer: every way to put a job on a queue. The many names are doors to two paths: now, and later."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Sequence
from typing import Any, Self

from chasqui_engine import dead_letters, delayed, health, listing, repeatables, snapshot
from chasqui_engine._redis import adding, inspecting, records
from chasqui_engine._redis.connection import Link
from chasqui_engine._redis.connector import A_MOMENT_S, FOR_EVER, Connector
from chasqui_engine._redis.endpoints import FetchCredentials
from chasqui_engine.config import ProducerConfig
from chasqui_engine.delayed import DelayedJob
from chasqui_engine.enqueue import PLAIN, Addition, Enqueuer, Moment
from chasqui_engine.errors import ConfigError, ShutdownError
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.health import QueueHealth
from chasqui_engine.job import AddOptions, DlqEntry, JobId
from chasqui_engine.listing import ListedJob
from chasqui_engine.names import check_job_id
from chasqui_engine.repeat import RepeatableMeta, RepeatableSpec
from chasqui_engine.results import ResultHub
from chasqui_engine.snapshot import EVENTS_FOR_RATE, JobInfo, QueueCounts, QueueSnapshot
from chasqui_engine.times import Delay, When, delay_ms, when_ms


class Producer:
    """Puts jobs on one queue; made by `await Producer.connect(…)`. One serves any number of tasks of its event loop."""

    def __init__(self, connector: Connector, link: Link, config: ProducerConfig) -> None:
        self._connector = connector
        self._link = link
        self._config = config
        self._keys = connector.keys
        self._enqueuer = Enqueuer(link, connector.keys, config)
        self._hub: ResultHub | None = None
        self._closed = False
        self.producer_id = str(uuid.uuid4())

    @classmethod
    async def connect(
        cls,
        redis_url: str | None = None,
        config: ProducerConfig | None = None,
        *,
        credential_provider: FetchCredentials | None = None,
        connection_patience: float | None = None,
    ) -> Self:
        """A producer that is connected; raises `RedisError` when the server cannot be reached.

        It waits `connection_patience` seconds for a server that is not there: 0 to connect and 5 later if left out.
        """
        config = config or ProducerConfig()
        connector = Connector(redis_url, config.queue_name, "producer", credential_provider)
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

    @property
    def added(self) -> int:
        """Jobs that this producer has written so far; those whose id was taken are not among them."""
        return self._enqueuer.added

    # --- now ---

    async def add(self, payload: Any, *, name: str = "") -> JobId:
        """Adds one job; returns its id."""
        return await self.add_with_options(payload, AddOptions(name=name) if name else PLAIN)

    async def add_with_id(self, job_id: JobId, payload: Any, *, name: str = "") -> JobId:
        """Adds one job under an id of yours; adding the id again is a no-op, from any process."""
        return await self.add_with_options(payload, AddOptions(id=job_id, name=name))

    async def add_with_options(self, payload: Any, options: AddOptions, created_at_ms: int | None = None) -> JobId:
        """Adds one job with id, retry override or name."""
        self._check_open()
        return await self._enqueuer.one_now(payload, options, created_at_ms)

    async def add_bulk(self, payloads: Sequence[Any]) -> list[JobId]:
        """Adds many jobs; returns their ids in order."""
        return await self.add_now([(payload, PLAIN) for payload in payloads])

    async def add_bulk_with_options(self, payloads: Sequence[Any], options: AddOptions) -> list[JobId]:
        """Adds many jobs that share name and retry override."""
        if options.id is not None and len(payloads) > 1:
            raise ConfigError("options.id names one job, but there are several payloads: use add_now with an id each")
        return await self.add_now([(payload, options) for payload in payloads])

    async def add_bulk_named(self, items: Sequence[tuple[str, Any]]) -> list[JobId]:
        """Adds many jobs, each (name, payload)."""
        return await self.add_now([(payload, AddOptions(name=name)) for name, payload in items])

    async def add_now(self, additions: Sequence[Addition], created_at_ms: int | None = None) -> list[JobId]:
        """Adds many jobs, each with its own options. What cannot be encoded is found before anything is written."""
        self._check_open()
        return await self._enqueuer.now(additions, created_at_ms)

    def begin_add_now(
        self, additions: Sequence[Addition], created_at_ms: int
    ) -> tuple[list[JobId], Coroutine[Any, Any, None]]:
        """`add_now` for who has something to do while the server works: the ids, and what is to be awaited."""
        self._check_open()
        return self._enqueuer.begin_now(additions, created_at_ms)

    # --- later ---

    async def add_in(self, delay: Delay, payload: Any) -> JobId:
        """Adds one job that runs after a delay."""
        return await self.add_in_with_options(delay, payload, PLAIN)

    async def add_at(self, when: When, payload: Any) -> JobId:
        """Adds one job that runs at a time."""
        return await self.add_at_with_options(when, payload, PLAIN)

    async def add_in_with_options(self, delay: Delay, payload: Any, options: AddOptions) -> JobId:
        """`add_in` with id, retry override or name."""
        return (await self.add_later([(payload, options)], [Moment(True, delay_ms(delay))]))[0]

    async def add_at_with_options(self, when: When, payload: Any, options: AddOptions) -> JobId:
        """`add_at` with id, retry override or name."""
        return (await self.add_later([(payload, options)], [Moment(False, when_ms(when))]))[0]

    async def add_in_with_id(self, job_id: JobId, delay: Delay, payload: Any) -> JobId:
        """`add_in` under an id of yours."""
        return await self.add_in_with_options(delay, payload, AddOptions(id=job_id))

    async def add_at_with_id(self, job_id: JobId, when: When, payload: Any) -> JobId:
        """`add_at` under an id of yours."""
        return await self.add_at_with_options(when, payload, AddOptions(id=job_id))

    async def add_in_bulk(self, delay: Delay, payloads: Sequence[Any]) -> list[JobId]:
        """Adds many jobs that run after the same delay."""
        additions = [(payload, PLAIN) for payload in payloads]
        return await self.add_later(additions, [Moment(True, delay_ms(delay))] * len(additions))

    async def add_in_bulk_with_ids(self, delay: Delay, items: Sequence[tuple[JobId, Any]]) -> list[JobId]:
        """`add_in_bulk`, each (id, payload)."""
        additions = [(payload, AddOptions(id=job_id)) for job_id, payload in items]
        return await self.add_later(additions, [Moment(True, delay_ms(delay))] * len(additions))

    async def add_later(
        self, additions: Sequence[Addition], moments: Sequence[Moment | None], created_at_ms: int | None = None
    ) -> list[JobId]:
        """Adds many jobs, each with its own options and moment; None, or a moment that has passed, is now."""
        self._check_open()
        return await self._enqueuer.later(additions, moments, created_at_ms)

    async def cancel_delayed(self, job_id: JobId) -> bool:
        """Takes a delayed job back; True if it was still delayed, and now never runs."""
        return (await self.cancel_delayed_bulk([job_id]))[0]

    async def cancel_delayed_bulk(self, job_ids: Sequence[JobId]) -> list[bool]:
        """`cancel_delayed` for many, answers in order."""
        for job_id in job_ids:
            check_job_id(job_id)
        return await adding.cancel(self._open_link(), self._keys, job_ids)

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

    # --- how the queue stands ---

    async def pause(self) -> bool:
        """Lets workers take no more jobs until `resume`; what runs, runs on. True if it was not paused before."""
        return await inspecting.set_paused(self._open_link(), self._keys, True)

    async def resume(self) -> bool:
        """Ends a pause; True if there was one."""
        return await inspecting.set_paused(self._open_link(), self._keys, False)

    async def is_paused(self) -> bool:
        """Whether the queue is paused."""
        return await inspecting.is_paused(self._open_link(), self._keys)

    async def health(self, *, group: str = "default") -> QueueHealth:
        """What the server is, and whether the group's workers are there."""
        return await health.ask(self._open_link(), self._keys, group)

    async def counts(self, *, group: str = "default") -> QueueCounts:
        """How many jobs are where, all at one moment."""
        return await snapshot.counts(self._open_link(), self._keys, group)

    async def snapshot(self, *, group: str = "default", events: int = EVENTS_FOR_RATE) -> QueueSnapshot:
        """Counts, workers and throughput, which is told from up to so many events."""
        return await snapshot.take(self._open_link(), self._keys, group, events=events)

    async def exists(self) -> bool:
        """Whether the server has anything of the queue: a job, an event, a repeatable or a pause, now or once."""
        return await inspecting.exists(self._open_link(), self._keys)

    async def get_job(
        self, job_id: JobId, *, group: str = "default", whole: bool = False, payload_chars: int | None = None
    ) -> JobInfo:
        """Where a job is, and what happened to it so far; see `JobInfo`. `whole` looks through all that waits."""
        link, keys = self._open_link(), self._keys
        return await snapshot.find_job(
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
        return await listing.waiting(link, keys, group, after=after, limit=limit, payload_chars=payload_chars)

    async def list_active(
        self, limit: int = 100, *, group: str = "default", payload_chars: int | None = None
    ) -> list[ListedJob]:
        """Jobs in the hands of workers, the oldest first, with so much of their payloads."""
        limit, link, keys = _checked_limit(limit), self._open_link(), self._keys
        return await listing.active(link, keys, group, limit=limit, payload_chars=payload_chars)

    async def newest_events(
        self, limit: int = 1000, *, after: str = "0", before: str | None = None
    ) -> list[QueueEvent]:
        """Up to `limit` events after the one of that id, the newest first."""
        limit = _checked_limit(limit)
        return await listing.newest_events(self._open_link(), self._keys, after=after, before=before, limit=limit)

    async def events_of_job(self, job_id: JobId, limit: int = 1000) -> list[QueueEvent]:
        """What was told of a job, the oldest first, as far as the queue's events are kept and were looked at."""
        limit = _checked_limit(limit)
        return await listing.events_of_job(self._open_link(), self._keys, check_job_id(job_id), limit=limit)

    # --- dead letters, repeatables, results ---

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
        return await inspecting.delete_dead(self._open_link(), self._keys, dlq_ids) if dlq_ids else 0

    async def page_dlq(self, after: str | None, limit: int = 500) -> list[DlqEntry]:
        """Up to `limit` dead letters after the one of that id, None for the first; oldest first."""
        return await records.peek_dead(self._open_link(), self._keys, count=_checked_limit(limit), after=after)

    async def page_newest_dlq(self, before: str | None, limit: int = 500) -> list[DlqEntry]:
        """Up to `limit` dead letters before the one of that id, None for the last; newest first."""
        link = self._open_link()
        return await records.peek_newest_dead(link, self._keys, count=_checked_limit(limit), before=before)

    async def get_dead(self, dlq_ids: Sequence[str]) -> list[DlqEntry]:
        """These dead letters, as far as they are still there."""
        return await records.get_dead(self._open_link(), self._keys, dlq_ids) if dlq_ids else []

    async def upsert_repeatable(self, spec: RepeatableSpec) -> str:
        """Stores a repeatable spec; returns its key."""
        return await repeatables.upsert(self._open_link(), self._keys, spec)

    async def list_repeatable(self, limit: int = 100) -> list[RepeatableMeta]:
        """Up to `limit` specs, the next to fire first."""
        return await repeatables.list_all(self._open_link(), self._keys, _checked_limit(limit))

    async def remove_repeatable(self, key: str) -> bool:
        """Removes a spec by its key; True if there was one."""
        return await repeatables.remove(self._open_link(), self._keys, key)

    async def get_result(self, job_id: JobId) -> bytes | None:
        """A stored result as MessagePack, None if there is none (yet, or any more)."""
        return (await self.get_result_bulk([job_id]))[0]

    async def get_result_bulk(self, job_ids: Sequence[JobId]) -> list[bytes | None]:
        """`get_result` for many, answers in order."""
        return await records.get_results(self._open_link(), self._keys, job_ids)

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
            raise ShutdownError("this producer is closed")

    def _open_link(self) -> Link:
        self._check_open()
        return self._link


def _checked_limit(limit: int, field: str = "limit") -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise ConfigError(f"{field} must be a whole number from 0 up, got {limit!r}")
    return limit
