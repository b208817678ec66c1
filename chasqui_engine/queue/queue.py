"""The queue, as users see it: named jobs with options, returned as jobs that can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from itertools import repeat as always
from typing import Any, Self

from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.client.urls import apply_tls
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.admin.operations.queue import QueueOperations
from chasqui_engine.codec.envelope import decode_payload
from chasqui_engine.queue.added_job import job_of
from chasqui_engine.queue.coercion import (
    NAME_AND_DATA,
    BackoffLike,
    DelayMsLike,
    MissedFiresLike,
    RepeatLike,
    as_missed_fires,
    as_repeat,
    as_retry,
    bulk_spec,
    check_bulk_fields,
    warn_of_unused,
)
from chasqui_engine.queue.defaults import JobDefaults
from chasqui_engine.queue.producer import Producer
from chasqui_engine.queue.traced_producer import connector_of
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.schedule.spec import RepeatableMeta, RepeatableSpec
from chasqui_engine.tracing import Tracing, TracingLike
from chasqui_engine.values.config import ProducerConfig, WhenFull
from chasqui_engine.values.durations import Expires
from chasqui_engine.values.errors import ChasquiError, ConfigError, ShutdownError
from chasqui_engine.values.job import Addition, AddOptions, Job, JobId

_NAMES_REMEMBERED = 100


class Queue(QueueOperations):
    """Puts jobs on one queue. Connects at the first use; one queue serves any number of tasks.

    - `redis_url`: the server; else `CHASQUI_REDIS_URL`, else `redis://127.0.0.1:6379`. `tls=True` makes it `rediss://`.
    - `max_stream_len`, `when_full`: how many jobs may wait (a million), and whether the next add raises
      `QueueFullError` ("error") or drops the oldest ("trim").
    - `max_delay_secs`, `dedup_ttl_secs`, `priority_max_wait_secs`, `credential_provider`: as in `ProducerConfig` and
      `Worker`.
    - `default_job_options`: `attempts`, `backoff`, `delay_ms` or `delay` of jobs whose `add` does not say them, in a
      dict; repeatables keep to their own.
    - `tracing`: whether adds make OpenTelemetry spans; True, or a `TracerProvider` other than the program's.
    - `connection_patience`: seconds to wait for an unreachable server; by default 0 to connect and 5 later.
    """

    def __init__(
        self,
        name: str,
        *,
        redis_url: str | None = None,
        tls: bool = False,
        max_stream_len: int | None = None,
        max_delay_secs: int | None = None,
        credential_provider: FetchCredentials | None = None,
        when_full: WhenFull | None = None,
        dedup_ttl_secs: int | None = None,
        connection_patience: float | None = None,
        default_job_options: Mapping[str, Any] | None = None,
        priority_max_wait_secs: int | None = None,
        tracing: TracingLike = False,
    ) -> None:
        given = {
            "max_stream_len": max_stream_len,
            "max_delay_secs": max_delay_secs,
            "when_full": when_full,
            "dedup_ttl_secs": dedup_ttl_secs,
            "priority_max_wait_secs": priority_max_wait_secs,
        }
        settings: dict[str, Any] = {field: value for field, value in given.items() if value is not None}
        self._config = ProducerConfig(queue_name=name, **settings)
        self._keys = QueueKeys(name)
        self._url = apply_tls(redis_url, tls)
        self._fetch = credential_provider
        self._patience_s = connection_patience
        self._defaults = JobDefaults.of(default_job_options)
        self._connect = connector_of(Tracing.of(tracing, name))
        # A connection belongs to its event loop; a program that runs several in turn has one for each.
        self._producers: dict[asyncio.AbstractEventLoop, asyncio.Task[Producer]] = {}
        self._plain: dict[str, AddOptions] = {}
        self._closed = False
        self._added = 0

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._config.queue_name

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def added(self) -> int:
        """The number of jobs written through this queue so far, without those whose id was taken."""
        opened = [opening for opening in self._producers.values() if opening.done() and not opening.cancelled()]
        return self._added + sum(opening.result().added for opening in opened if opening.exception() is None)

    async def add(
        self,
        name: str,
        data: Any,
        *,
        delay_ms: DelayMsLike | None = None,
        delay: timedelta | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        job_id: JobId | None = None,
        repeat: RepeatLike | None = None,
        missed_fires: MissedFiresLike | None = None,
        headers: Mapping[str, str] | None = None,
        priority: int = 0,
        expires: Expires | None = None,
    ) -> Job:
        """Adds one job.

        `delay_ms` (milliseconds, or a `datetime` to run at) or `delay` (a `timedelta`) runs it later; `job_id` makes
        adding it again a no-op, from any process; `attempts` and `backoff` override the worker's retries; `headers` are
        texts by name that travel with the job; with a `priority` of 1 or more it waits until no job of a smaller one
        does, 0 is the first; a job that has not begun by `expires` (a `timedelta` or seconds from now, or a `datetime`)
        does not run, but ends as expired; `repeat` stores a repeatable spec instead, and the job that is returned has
        the spec's key as its id.
        """
        if repeat is not None:
            more = {"headers": headers, "priority": priority or None, "expires": expires}
            warn_of_unused({"delay_ms": delay_ms, "delay": delay, **more})
            return await self.upsert_repeatable_job(
                name,
                data,
                repeat=repeat,
                missed_fires=missed_fires,
                attempts=attempts,
                backoff=backoff,
                job_id=job_id,
            )
        if missed_fires is not None:
            raise ConfigError("missed_fires goes with repeat=RepeatPattern.cron(…) or .every(…)")
        if all(one is None for one in (job_id, attempts, backoff, headers, expires)) and priority == 0:
            options = self._options_for(name)
        else:
            retry = self._defaults.retry_of(attempts, backoff)
            options = AddOptions(id=job_id, retry=retry, name=name, headers=headers, priority=priority, expires=expires)
        moment = self._defaults.moment_of(delay_ms, delay)
        producer = await self._producer()
        created_at_ms = now_ms()
        if moment is None:
            added_id = await producer.add_with_options(data, options, created_at_ms)
        else:
            added_id = (await producer.add_later([(data, options)], [moment], created_at_ms))[0]
        return job_of(added_id, (data, options), created_at_ms, producer.wait_for_result)

    async def add_unique(
        self,
        name: str,
        data: Any,
        *,
        job_id: JobId,
        delay_ms: DelayMsLike | None = None,
        delay: timedelta | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        repeat: RepeatLike | None = None,
        headers: Mapping[str, str] | None = None,
        priority: int = 0,
        expires: Expires | None = None,
    ) -> Job:
        """Like `add`, but requires a `job_id`: however often and from wherever it is called, the job is added once."""
        if not isinstance(job_id, str) or not job_id.strip():
            raise ConfigError("job_id must be a non-empty, non-whitespace string")
        return await self.add(
            name,
            data,
            delay_ms=delay_ms,
            delay=delay,
            attempts=attempts,
            backoff=backoff,
            job_id=job_id,
            repeat=repeat,
            headers=headers,
            priority=priority,
            expires=expires,
        )

    async def add_bulk(self, jobs: Sequence[Mapping[str, Any]]) -> list[Job]:
        """Adds many jobs: each a mapping with `name`, `data` and the options of `add`.

        Everything is checked and encoded before anything is written.
        """
        if not jobs:
            return []
        if self._defaults.moment is None and all(item.keys() == NAME_AND_DATA for item in jobs):
            return await self._add_plain(jobs)
        once = [item for item in jobs if item.get("repeat") is None]
        additions = [self._bulk_addition(item) for item in once]
        specs = iter([bulk_spec(item) for item in jobs if item.get("repeat") is not None])
        moments = [self._defaults.moment_of(item.get("delay_ms"), item.get("delay")) for item in once]
        producer = await self._producer()
        created_at_ms = now_ms()
        ids = await producer.add_later(additions, moments, created_at_ms)
        added = map(job_of, ids, additions, always(created_at_ms), always(producer.wait_for_result))
        return [next(added) if item.get("repeat") is None else await _upsert(producer, next(specs)) for item in jobs]

    async def _add_plain(self, jobs: Sequence[Mapping[str, Any]]) -> list[Job]:
        """Jobs with a name and data only."""
        named = self._options_for
        additions = [(item["data"], named(item["name"] or "")) for item in jobs]
        producer = await self._producer()
        created_at_ms = now_ms()
        ids, write = producer.begin_add_now(additions, created_at_ms)
        writing = asyncio.create_task(write)
        try:
            await asyncio.sleep(0)  # lets the write begin: the rest is done while the server works
            added = list(map(job_of, ids, additions, always(created_at_ms), always(producer.wait_for_result)))
            await writing
        finally:
            writing.cancel()
        return added

    async def peek_dlq(self, limit: int = 20) -> list[dict[str, Any]]:
        """Up to `limit` dead letters, oldest first: the fields of `DlqEntry`."""
        return [asdict(entry) for entry in await (await self._producer()).peek_dlq(limit)]

    async def upsert_repeatable_job(
        self,
        name: str,
        data: Any,
        *,
        repeat: RepeatLike,
        limit: int | None = None,
        start_after_ms: int | None = None,
        end_before_ms: int | None = None,
        attempts: int | None = None,
        backoff: BackoffLike | None = None,
        job_id: JobId | None = None,
        missed_fires: MissedFiresLike | None = None,
        key: str | None = None,
    ) -> Job:
        """Stores a repeatable spec under `key`, or one made of name and pattern, which the returned job has as its id.

        `attempts` and `backoff` are those of every job it makes. A worker of ChasquiMQ 1.3.0 that schedules this queue
        cannot read a spec that has them, and drops it. `job_id` has no effect, and warns.
        """
        warn_of_unused({"job_id": job_id})
        spec = RepeatableSpec(
            job_name=name,
            pattern=as_repeat(repeat),
            payload=data,
            limit=limit,
            start_after_ms=start_after_ms,
            end_before_ms=end_before_ms,
            missed_fires=as_missed_fires(missed_fires),
            retry=as_retry(attempts, backoff),
            key="" if key is None else key,
        )
        return await _upsert(await self._producer(), spec)

    async def get_repeatable_jobs(self, limit: int = 100) -> list[RepeatableMeta]:
        """Up to `limit` repeatable specs, the next to fire first."""
        return await self.list_repeatable(limit)

    async def remove_repeatable_by_key(self, key: str) -> bool:
        """Removes a repeatable spec; True if there was one."""
        return await self.remove_repeatable(key)

    async def get_job_result(self, job_id: JobId) -> Any:
        """What the handler returned; None also when there is no result yet, or it expired."""
        return (await self.get_job_result_bulk([job_id]))[0]

    async def get_job_result_bulk(self, job_ids: Sequence[JobId]) -> list[Any]:
        """`get_job_result` for many, answers in order."""
        results = await self.get_result_bulk(job_ids)
        return [None if result is None else decode_payload(result) for result in results]

    async def wait_for_result(self, job_id: JobId, *, timeout: float = 30.0) -> Any:
        """Like `Job.wait_for_result`, for a job id."""
        return await (await self._producer()).wait_for_result(job_id, timeout)

    async def close(self) -> None:
        """Closes the connections of this event loop. Added jobs stay."""
        self._closed = True
        opening = self._producers.pop(asyncio.get_running_loop(), None)
        if opening is None:
            return
        try:
            producer = await opening
        except ChasquiError:
            return  # already raised to the call that opened it
        self._added += producer.added
        await producer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _options_for(self, name: str) -> AddOptions:
        """Options with a name only; most jobs share a few names, which are checked once."""
        # Other types may not be hashable; AddOptions raises the error.
        options = self._plain.get(name) if type(name) is str else None
        if options is None:
            options = AddOptions(name=name, retry=self._defaults.retry_of(None, None))
            if len(self._plain) < _NAMES_REMEMBERED:
                self._plain[name] = options
        return options

    def _bulk_addition(self, item: Mapping[str, Any]) -> Addition:
        check_bulk_fields(item)
        if item.get("missed_fires") is not None:
            raise ConfigError("missed_fires goes with repeat=RepeatPattern.cron(…) or .every(…)")
        retry = self._defaults.retry_of(item.get("attempts"), item.get("backoff"))
        more = {field: item.get(field) for field in ("headers", "expires")}
        name, priority = item.get("name") or "", item.get("priority", 0)
        return item["data"], AddOptions(id=item.get("job_id"), retry=retry, name=name, priority=priority, **more)

    async def _open_link(self) -> Link:
        return await (await self._producer())._open_link()

    async def _producer(self) -> Producer:
        if self._closed:
            raise ShutdownError(f"queue {self.name!r} is closed")
        loop = asyncio.get_running_loop()
        opening = self._producers.get(loop)
        if opening is None or (opening.done() and opening.exception() is not None):
            for ended in [other for other in self._producers if other.is_closed()]:
                del self._producers[ended]
            connecting = self._connect(
                self._url, self._config, credential_provider=self._fetch, connection_patience=self._patience_s
            )
            opening = self._producers[loop] = asyncio.create_task(connecting)
        return opening.result() if opening.done() else await asyncio.shield(opening)


async def _upsert(producer: Producer, spec: RepeatableSpec) -> Job:
    key = await producer.upsert_repeatable(spec)
    return job_of(key, (spec.payload, AddOptions(name=spec.job_name)), now_ms(), producer.wait_for_result)
