"""What feeds poll: all queues of a connection, or one queue with the history of an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import HTTPException

from chasqui_engine import ChasquiError, Producer
from chasqui_engine.admin import BadQueue, ConsumerInfo, QueueSnapshot
from chasqui_engine.dashboard.api.error_map import describe_error
from chasqui_engine.dashboard.api.serializers import cut
from chasqui_engine.dashboard.auth import Connections
from chasqui_engine.dashboard.live.feeds import Feed
from chasqui_engine.dashboard.live.series import SPAN_MS, Series
from chasqui_engine.dashboard.pool import Pool
from chasqui_engine.dashboard.settings import DashboardSettings
from chasqui_engine.runtime.clock import monotonic, now_ms

_EVENTS_FOR_RATE = 500
_EVENTS_PER_POLL = 5_000
_EVENTS_AT_FIRST = 50_000
_PAGE = 2_000
_NAMES_EVERY_S = 5.0
_PATIENCE_S = 1.0


class AllQueuesPoller:
    """Reads every connection by its own feed, so that an unreachable server does not delay the others."""

    def __init__(self, connections: Connections, feed_of: Callable[[str], Feed]) -> None:
        self._connections = connections
        self._feed_of = feed_of

    async def __call__(self) -> list[dict[str, Any]]:
        names = await self._connections.names()
        return list(await asyncio.gather(*map(self._read_one, names)))

    async def _read_one(self, name: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                seen: dict[str, Any] = await self._feed_of(name).now()
        except TimeoutError:
            return {"name": name, "pending": True, "queues": [], "bad": []}
        except (ChasquiError, HTTPException) as err:
            return {"name": name, "error": describe_error(err)[1], "queues": [], "bad": []}
        return seen


class QueuesPoller:
    """Reads the queues of a connection; their names less often than their state."""

    def __init__(self, pool: Pool, settings: DashboardSettings, connection: str) -> None:
        self._pool = pool
        self._settings = settings
        self._connection = connection
        self._names: list[str] = []
        self._named_at = -_NAMES_EVERY_S

    async def __call__(self) -> dict[str, Any]:
        async with self._pool.monitor(self._connection) as monitor:
            if monotonic() - self._named_at >= _NAMES_EVERY_S:
                self._names = await monitor.names()
                self._named_at = monotonic()
            seen = await monitor.take_snapshots(self._names[: self._settings.most_queues], events=_EVENTS_FOR_RATE)
            address, server = monitor.address, monitor.server
        return {
            "name": self._connection,
            "address": address,
            "server": server,
            "total": len(self._names),
            "queues": [describe_queue(one, self._settings) for one in seen if isinstance(one, QueueSnapshot)],
            "bad": [{"queue": one.name, "error": one.error} for one in seen if isinstance(one, BadQueue)],
        }


async def search(pool: Pool, settings: DashboardSettings, connection: str, text: str) -> list[dict[str, Any]]:
    """Queues with this text in their names, regardless of case, listed or not."""
    async with pool.monitor(connection) as monitor:
        found = [name for name in await monitor.names() if text.casefold() in name.casefold()]
        seen = await monitor.take_snapshots(found[: settings.page_size], events=_EVENTS_FOR_RATE)
        return [describe_queue(one, settings) for one in seen if isinstance(one, QueueSnapshot)]


def describe_queue(one: QueueSnapshot, settings: DashboardSettings) -> dict[str, Any]:
    """A queue in the list."""
    rate = one.throughput
    return {
        "queue": one.name,
        **asdict(one.counts),
        "workers": one.workers,
        "running": one.running,
        "buffered": one.buffered,
        "lacks_workers": one.lacks_workers,
        "waits_too_long": one.counts.oldest_waiting_ms > settings.alarm_after_s * 1000,
        "completed_per_s": round(rate.completed_per_s, 3),
        "failed_per_s": round(rate.failed_per_s, 3),
        "dead_per_s": round(rate.dead_per_s, 3),
    }


def _describe_worker(one: ConsumerInfo) -> dict[str, Any]:
    about = (one.host, None if one.pid is None else f"process {one.pid}", one.version and f"Chasqui {one.version}")
    return {
        **{name: value for name, value in asdict(one).items() if name not in ("queues", "handlers")},
        "name": cut(one.name),
        "about": cut(", ".join(filter(None, about))),
        "queues": cut(", ".join(one.queues)),
        "handlers": cut(", ".join(one.handlers)),
        "running": one.runs,
        "buffered": one.active - one.runs,
    }


class QueuePoller:
    """Reads one queue, and adds the events since the last read to its series. Every read is bounded."""

    def __init__(self, pool: Pool, settings: DashboardSettings, connection: str, queue: str) -> None:
        self._pool = pool
        self._settings = settings
        self._connection = connection
        self._queue = queue
        self._series: Series | None = None
        self._last_id = ""
        self._read_ms = 0

    async def __call__(self) -> tuple[dict[str, Any], Series]:
        async with self._pool.producer(self._connection, self._queue) as producer:
            snapshot = await producer.snapshot(group=self._settings.group, events=_EVENTS_FOR_RATE)
            series = await (self._begin(producer) if self._series is None else self._continue(producer, self._series))
        consumers = sorted(snapshot.consumers, key=lambda one: (-one.active, one.name))[: self._settings.page_size]
        view = {
            "connection": self._connection,
            **describe_queue(snapshot, self._settings),
            "group": snapshot.group,
            "consumers": [_describe_worker(one) for one in consumers],
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
                series.since_ms = page[-1].at_ms
                break
        self._series, self._read_ms = series, now
        return series

    async def _continue(self, producer: Producer, series: Series) -> Series:
        now = now_ms()
        page = await producer.newest_events(_EVENTS_PER_POLL, after=self._last_id)
        if len(page) >= _EVENTS_PER_POLL:
            # The events that were not read are estimated from those that were.
            span_ms = max(1, page[0].at_ms - page[-1].at_ms)
            series.add(page, weight=max(1.0, (now - self._read_ms) / span_ms))
            series.estimated = True
        else:
            series.add(page)
        if page:
            self._last_id = page[0].entry_id
        series.forget_before(now - SPAN_MS)
        self._read_ms = now
        return series
