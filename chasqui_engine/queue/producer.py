"""The producer: every way to add jobs to a queue. All methods lead to two paths: now, and later."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Sequence
from typing import Any

from chasqui_engine._redis.client.connector import Connector
from chasqui_engine._redis.client.link import Link
from chasqui_engine.admin.admin import QueueAdmin
from chasqui_engine.queue.enqueue import Enqueuer
from chasqui_engine.values.config import ProducerConfig
from chasqui_engine.values.durations import Delay, When, delay_ms, when_ms
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import PLAIN, Addition, AddOptions, JobId, Moment


class Producer(QueueAdmin):
    """Puts jobs on one queue, and administers it; made by `await Producer.connect(…)`."""

    _ROLE = "producer"

    def __init__(self, connector: Connector, link: Link, config: ProducerConfig) -> None:
        super().__init__(connector, link, config)
        self._enqueuer = Enqueuer(link, connector.keys, config)
        self.producer_id = str(uuid.uuid4())

    @property
    def added(self) -> int:
        """The number of jobs written by this producer so far, without those whose id was taken."""
        return self._enqueuer.added

    async def add(self, payload: Any, *, name: str = "") -> JobId:
        """Adds one job; returns its id."""
        return await self.add_with_options(payload, AddOptions(name=name) if name else PLAIN)

    async def add_with_id(self, job_id: JobId, payload: Any, *, name: str = "") -> JobId:
        """Adds one job under your own id; adding the id again is a no-op, from any process."""
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
        """Adds many jobs, each with its own options. Encoding errors are raised before anything is written."""
        self._check_open()
        return await self._enqueuer.now(additions, created_at_ms)

    def begin_add_now(
        self, additions: Sequence[Addition], created_at_ms: int
    ) -> tuple[list[JobId], Coroutine[Any, Any, None]]:
        """Like `add_now`, split in two: returns the ids at once, and a coroutine that completes the write."""
        self._check_open()
        return self._enqueuer.begin_now(additions, created_at_ms)

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
        """`add_in` under your own id."""
        return await self.add_in_with_options(delay, payload, AddOptions(id=job_id))

    async def add_at_with_id(self, job_id: JobId, when: When, payload: Any) -> JobId:
        """`add_at` under your own id."""
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
        """Adds many jobs, each with its own options and time; None, or a time in the past, is now."""
        self._check_open()
        return await self._enqueuer.later(additions, moments, created_at_ms)
