"""Following the events stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Self

from chasqui_engine._redis.client.connector import FOR_EVER, Connector
from chasqui_engine._redis.client.endpoints import FetchCredentials
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.client.urls import apply_tls
from chasqui_engine._redis.commands import events
from chasqui_engine.events.event import QueueEvent
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.values.errors import ConfigError, ShutdownError
from chasqui_engine.values.validation import check_whole_number

_ENTRY_ID = re.compile(r"\$|[0-9]+(-[0-9]+)?")


class QueueEvents:
    """A queue's events as an async iterator: `async for event in QueueEvents("emails"): …`.

    Begins with events after the first step of the iteration; `last_event_id="0"` begins with the oldest kept one.
    It reconnects after a broken connection without losing or repeating an event. Ends with `close()`.
    """

    def __init__(
        self,
        queue_name: str,
        *,
        redis_url: str | None = None,
        tls: bool = False,
        last_event_id: str = "$",
        block_ms: int = 5_000,
        count: int = 100,
        credential_provider: FetchCredentials | None = None,
    ) -> None:
        for field, value in (("block_ms", block_ms), ("count", count)):
            check_whole_number(value, field, 1)
        if not isinstance(last_event_id, str) or not _ENTRY_ID.fullmatch(last_event_id):
            raise ConfigError(f"last_event_id must be '$', '0' or the id of an event, got {last_event_id!r}")
        self._connector = Connector(apply_tls(redis_url, tls), queue_name, "events", credential_provider)
        self._last_id = last_event_id
        self._block_ms = block_ms
        self._count = count
        self._closed = False
        self._reading: asyncio.Task[list[tuple[str, dict[str, str]]]] | None = None

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._connector.keys.queue

    def __aiter__(self) -> AsyncIterator[QueueEvent]:
        return self._follow()

    async def _follow(self) -> AsyncIterator[QueueEvent]:
        if self._closed:
            return
        link = self._connector.link(FOR_EVER)
        try:
            while not self._closed:
                self._reading = asyncio.ensure_future(self._read(link))
                try:
                    entries = await self._reading
                except (ShutdownError, asyncio.CancelledError):
                    if self._closed:
                        return
                    raise
                for entry_id, fields in entries:
                    self._last_id = entry_id
                    yield QueueEvent.of(entry_id, fields)
                    if self._closed:
                        return
        finally:
            # An abandoned iteration still waits for the server; a later one would wait behind it.
            await link.close()

    async def _read(self, link: Link) -> list[tuple[str, dict[str, str]]]:
        keys = self._connector.keys
        if self._last_id == "$":
            # A real id, so that a broken connection resumes at the same event and not at a later "now".
            self._last_id = await events.read_last_id(link, keys)
        return await events.read_events(link, keys, self._last_id, count=self._count, block_ms=self._block_ms)

    async def close(self) -> None:
        """Ends the iteration and the connection."""
        self._closed = True
        await cancel_and_wait(self._reading)
        await self._connector.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
