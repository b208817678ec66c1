"""What a look sees: all queues of a connection, or one queue with what happened in it over the last hour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import HTTPException

from chasqui_engine.admin.monitor import BadQueue
from chasqui_engine.admin.snapshot import QueueSnapshot
from chasqui_engine.clock import monotonic, now_ms
from chasqui_engine.dashboard.api.error_map import describe_error
from chasqui_engine.dashboard.auth import Connections
from chasqui_engine.dashboard.live.feeds import Feed
from chasqui_engine.dashboard.live.series import SPAN_MS, Series, event_ms
from chasqui_engine.dashboard.pool import Pool
from chasqui_engine.dashboard.settings import DashboardSettings
from chasqui_engine.errors import ChasquiError
from chasqui_engine.producer import Producer

_EVENTS_FOR_RATE = 500
_EVENTS_PER_LOOK = 5_000
_EVENTS_AT_FIRST = 50_000
_PAGE = 2_000
_NAMES_EVERY_S = 5.0
_PATIENCE_S = 1.0


class AllQueuesPoller:
    """Looks at every connection, each of which is looked at in its own time: one that is away holds up no other."""

    def __init__(self, connections: Connections, watch: Callable[[str], Feed]) -> None:
        self._connections = connections
        self._watch = watch

    async def __call__(self) -> list[dict[str, Any]]:
        names = await self._connections.names()
        return list(await asyncio.gather(*map(self._one, names)))

    async def _one(self, name: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                seen: dict[str, Any] = await self._watch(name).now()
        except TimeoutError:
            return {"name": name, "pending": True, "queues": [], "bad": []}
        except (ChasquiError, HTTPException) as err:
            return {"name": name, "error": describe_error(err)[1], "queues": [], "bad": []}
        return seen


class QueuesPoller:
    """Looks at the queues of a connection; which there are, is asked less often than how they stand."""

    def __init__(self, pool: Pool, settings: DashboardSettings, connection: str) -> None:
        self._pool = pool
        self._settings = settings
        self._connection = connection
        self._names: list[str] = []
        self._named_at = -_NAMES_EVERY_S

    async def __call__(self) -> dict[str, Any]:
        async with self._pool.looker(self._connection) as looker:
            if monotonic() - self._named_at >= _NAMES_EVERY_S:
                self._names = await looker.names()
                self._named_at = monotonic()
            seen = await looker.look(self._names[: self._settings.most_queues], events=_EVENTS_FOR_RATE)
            address, server = looker.address, looker.server
        return {
            "name": self._connection,
            "address": address,
            "server": server,
            "total": len(self._names),
            "queues": [queue_row(one) for one in seen if isinstance(one, QueueSnapshot)],
            "bad": [{"queue": one.name, "error": one.error} for one in seen if isinstance(one, BadQueue)],
        }


async def search(pool: Pool, connection: str, text: str, most: int) -> list[dict[str, Any]]:
    """Queues with this text in their names, in large or small letters, wherever they are in the list."""
    async with pool.looker(connection) as looker:
        found = [name for name in await looker.names() if text.casefold() in name.casefold()]
        seen = await looker.look(found[:most], events=_EVENTS_FOR_RATE)
        return [queue_row(one) for one in seen if isinstance(one, QueueSnapshot)]


def queue_row(one: QueueSnapshot) -> dict[str, Any]:
    """A queue in the list."""
    rate = one.throughput
    return {
        "queue": one.name,
        **asdict(one.counts),
        "workers": len(one.consumers),
        "completed_per_s": round(rate.completed_per_s, 3),
        "failed_per_s": round(rate.failed_per_s, 3),
        "dead_per_s": round(rate.dead_per_s, 3),
    }


class QueuePoller:
    """Looks at one queue, and adds what was told since the last look to its series. Every read is bounded."""

    def __init__(self, pool: Pool, settings: DashboardSettings, connection: str, queue: str) -> None:
        self._pool = pool
        self._settings = settings
        self._connection = connection
        self._queue = queue
        self._series: Series | None = None
        self._last_id = ""
        self._looked_ms = 0

    async def __call__(self) -> tuple[dict[str, Any], Series]:
        async with self._pool.producer(self._connection, self._queue) as producer:
            snapshot = await producer.snapshot(group=self._settings.group, events=_EVENTS_FOR_RATE)
            series = await (self._begin(producer) if self._series is None else self._go_on(producer, self._series))
        consumers = sorted((asdict(one) for one in snapshot.consumers), key=lambda one: (-one["active"], one["name"]))
        view = {
            "connection": self._connection,
            **queue_row(snapshot),
            "group": snapshot.group,
            "consumers": consumers[: self._settings.page_size],
            "now_ms": now_ms(),
        }
        return view, series

    async def _begin(self, producer: Producer) -> Series:
        now = now_ms()
        self._last_id = after = f"{now - SPAN_MS}-0"
        series, read, before = Series(now - SPAN_MS), 0, None
        while page := await producer.newest_events(_PAGE, after=after, before=before):
            if before is None:
                self._last_id = page[0].entry_id
            series.add(page)
            read, before = read + len(page), page[-1].entry_id
            if read >= _EVENTS_AT_FIRST:
                series.since_ms = event_ms(page[-1])
                break
        self._series, self._looked_ms = series, now
        return series

    async def _go_on(self, producer: Producer, series: Series) -> Series:
        now = now_ms()
        page = await producer.newest_events(_EVENTS_PER_LOOK, after=self._last_id)
        if len(page) >= _EVENTS_PER_LOOK:
            # The rest went by unread; what was read stands for it.
            span_ms = max(1, event_ms(page[0]) - event_ms(page[-1]))
            series.add(page, weight=max(1.0, (now - self._looked_ms) / span_ms))
            series.estimated = True
        else:
            series.add(page)
        if page:
            self._last_id = page[0].entry_id
        series.forget_before(now - SPAN_MS)
        self._looked_ms = now
        return series
