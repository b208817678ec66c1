"""ChasquiMQ's `Producer`: payloads are bytes and stay as they are, options and specs are dicts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.native.options import as_options, as_packed, as_spec, meta_fields
from chasqui_engine.queue.queue import Queue
from chasqui_engine.values.config import ProducerConfig
from chasqui_engine.values.job import PLAIN, AddOptions, JobId, Moment
from chasqui_engine.values.validation import check_whole_number

Options = Mapping[str, Any]


class Producer:
    """Puts jobs on one queue, and administers it. Connects at the first use.

    - `max_stream_len`: how many jobs may wait; one more raises `QueueFullError`.
    - `pool_size` has no effect.
    """

    def __init__(
        self,
        redis_url: str,
        queue_name: str,
        *,
        pool_size: int | None = None,
        max_stream_len: int | None = None,
        max_delay_secs: int | None = None,
        credential_provider: FetchCredentials | None = None,
    ) -> None:
        if pool_size is not None:
            ProducerConfig(pool_size=pool_size)  # which says what is wrong with it, or that it has no effect
        self._queue = Queue(
            queue_name,
            redis_url=redis_url,
            max_stream_len=max_stream_len,
            max_delay_secs=max_delay_secs,
            credential_provider=credential_provider,
        )
        self._keys = QueueKeys(queue_name)
        self._producer_id = str(uuid.uuid4())

    def stream_key(self) -> str:
        """The stream of waiting jobs."""
        return self._keys.stream

    def delayed_key(self) -> str:
        """The set of delayed jobs."""
        return self._keys.delayed

    def dlq_key(self) -> str:
        """The stream of dead letters."""
        return self._keys.dlq

    def producer_id(self) -> str:
        """An id of this producer's own."""
        return self._producer_id

    async def add(self, payload: bytes) -> JobId:
        """Adds one job; returns its id."""
        return (await self._add([(payload, PLAIN)]))[0]

    async def add_with_options(self, payload: bytes, opts: Options) -> JobId:
        """Adds one job with `id`, `name` or `retry`."""
        return (await self._add([(payload, as_options(opts))]))[0]

    async def add_in(self, delay_ms: int, payload: bytes) -> JobId:
        """Adds one job that runs after `delay_ms`."""
        return (await self._add([(payload, PLAIN)], _in(delay_ms)))[0]

    async def add_in_with_options(self, delay_ms: int, payload: bytes, opts: Options) -> JobId:
        """`add_in` with options."""
        return (await self._add([(payload, as_options(opts))], _in(delay_ms)))[0]

    async def add_at(self, when_ms: int, payload: bytes) -> JobId:
        """Adds one job that runs at a time, in milliseconds since 1970."""
        return (await self._add([(payload, PLAIN)], _at(when_ms)))[0]

    async def add_at_with_options(self, when_ms: int, payload: bytes, opts: Options) -> JobId:
        """`add_at` with options."""
        return (await self._add([(payload, as_options(opts))], _at(when_ms)))[0]

    async def add_bulk(self, payloads: Sequence[bytes]) -> list[JobId]:
        """Adds many jobs; returns their ids in order."""
        return await self._add([(payload, PLAIN) for payload in payloads])

    async def add_bulk_with_options(self, payloads: Sequence[bytes], opts: Options) -> list[JobId]:
        """Adds many jobs that share name and retries."""
        producer = await self._queue._producer()
        return await producer.add_bulk_with_options([as_packed(one) for one in payloads], as_options(opts))

    async def add_bulk_named(self, items: Sequence[tuple[str, bytes]]) -> list[JobId]:
        """Adds many jobs, each (name, payload)."""
        return await self._add([(payload, AddOptions(name=name)) for name, payload in items])

    async def add_in_bulk(self, delay_ms: int, payloads: Sequence[bytes]) -> list[JobId]:
        """Adds many jobs that run after the same delay."""
        return await self._add([(payload, PLAIN) for payload in payloads], _in(delay_ms))

    async def cancel_delayed(self, job_id: JobId) -> bool:
        """Takes a delayed job back; True if it was still delayed."""
        return await self._queue.cancel_delayed(job_id)

    async def cancel_delayed_bulk(self, job_ids: Sequence[JobId]) -> list[bool]:
        """`cancel_delayed` for many, answers in order."""
        return await self._queue.cancel_delayed_bulk(job_ids)

    async def peek_dlq(self, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` dead letters, oldest first."""
        return await self._queue.peek_dlq(limit)

    async def replay_dlq(self, limit: int) -> int:
        """Replays up to `limit` dead letters; returns how many."""
        return await self._queue.replay_dlq(limit)

    async def upsert_repeatable(self, spec: Options) -> str:
        """Stores a repeatable spec; returns its key."""
        return await self._queue.upsert_repeatable(as_spec(spec))

    async def list_repeatable(self, limit: int) -> list[dict[str, Any]]:
        """Up to `limit` specs, the next to fire first."""
        return [meta_fields(meta) for meta in await self._queue.list_repeatable(limit)]

    async def remove_repeatable_by_key(self, key: str) -> bool:
        """Removes a spec; True if there was one."""
        return await self._queue.remove_repeatable(key)

    async def get_result(self, id: JobId) -> bytes | None:  # noqa: A002 - as ChasquiMQ names it
        """The bytes that the handler returned; None when there are none."""
        return await self._queue.get_result(id)

    async def get_result_bulk(self, ids: Sequence[JobId]) -> list[bytes | None]:
        """`get_result` for many, answers in order."""
        return await self._queue.get_result_bulk(ids)

    async def shutdown(self) -> None:
        """Closes the connections. What was added stays added."""
        await self._queue.close()

    async def _add(self, jobs: Sequence[tuple[bytes, AddOptions]], moment: Moment | None = None) -> list[JobId]:
        additions = [(as_packed(payload), options) for payload, options in jobs]
        producer = await self._queue._producer()
        if moment is not None:
            return await producer.add_later(additions, [moment] * len(additions))
        if len(additions) == 1:
            return [await producer.add_with_options(*additions[0])]
        return await producer.add_now(additions)


def _in(delay_ms: int) -> Moment:
    return Moment(True, check_whole_number(delay_ms, "delay_ms"))


def _at(when_ms: int) -> Moment:
    return Moment(False, check_whole_number(when_ms, "when_ms"))
