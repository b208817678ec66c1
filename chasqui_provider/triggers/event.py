"""The trigger that follows a queue's events and triggers DAGs with them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from chasqui_engine import QueueEvent, QueueEvents
from chasqui_provider.asset_events.job_stream import check_count
from chasqui_provider.connection.settings import DEFAULT_CONN_ID
from chasqui_provider.conversion import to_json
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.triggers.filters import as_event_names, as_names
from chasqui_provider.triggers.payloads import QuietEvent, chunks
from chasqui_provider.version_compat import read_asset_state, write_asset_state

_log = logging.getLogger(__name__)

_STORED_AFTER_S = 5.0
"""An event yielded this long ago is assumed to be in Airflow's database; its cursor is stored only then."""

_POSITION = "chasqui_last_event_id"


class ChasquiEventTrigger(BaseEventTrigger):
    """Triggers DAGs with what happens on a queue: `{"queue_name": …, "events": [{"event": "dlq", "job_id": …}, …]}`.

    Resumes where it stopped, through the asset's state store; after a crash the last few seconds may be repeated.
    Without such a store, or when several assets share one trigger, it begins with new events.

    :param events: names of the events to follow ("completed", "failed", "dlq" …); empty for all.
    :param job_names: names of the jobs to follow; empty for all.
    :param job_id_prefix: what a job's id must begin with.
    :param batch_size: at most this many events in one asset event; Airflow makes one run of several at once.
    :param linger: seconds an incomplete batch waits for more.
    :param from_start: at the very first start, begin with the oldest kept event instead of new ones.
    """

    def __init__(
        self,
        queue_name: str | None = None,
        chasqui_conn_id: str = DEFAULT_CONN_ID,
        events: str | Sequence[str] = (),
        job_names: str | Sequence[str] = (),
        job_id_prefix: str = "",
        batch_size: int = 100,
        linger: float = 0.2,
        from_start: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        check_count("batch_size", batch_size)
        self.queue_name = queue_name
        self.chasqui_conn_id = chasqui_conn_id
        self.events = as_event_names(events)
        self.job_names = as_names(job_names)
        self.job_id_prefix = job_id_prefix
        self.batch_size = batch_size
        self.linger = linger
        self.from_start = from_start

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class path and arguments from which the triggerer recreates the trigger."""
        return (
            "chasqui_provider.triggers.chasqui.ChasquiEventTrigger",
            {
                "queue_name": self.queue_name,
                "chasqui_conn_id": self.chasqui_conn_id,
                "events": list(self.events),
                "job_names": list(self.job_names),
                "job_id_prefix": self.job_id_prefix,
                "batch_size": self.batch_size,
                "linger": self.linger,
                "from_start": self.from_start,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follows the events; reconnects when the connection breaks."""
        settings = await ChasquiHook(self.chasqui_conn_id).get_settings()
        name = settings.name_of(self.queue_name)
        cursor = _StoredCursor(getattr(self, "asset_state_store", None))
        begin = await cursor.load() or ("0" if self.from_start else f"{int(time.time() * 1000)}-0")
        await cursor.save(begin)
        events = QueueEvents(name, redis_url=settings.url, last_event_id=begin)
        arrived: asyncio.Queue[QueueEvent] = asyncio.Queue(maxsize=10 * self.batch_size)
        tasks = [asyncio.create_task(_pump(events, arrived)), asyncio.create_task(cursor.keep())]
        try:
            while True:
                batch = await self._next_batch(arrived, tasks[0])
                for chunk in chunks(_describe(event) for event in batch if self._wants(event)):
                    yield QuietEvent({"queue_name": name, "events": chunk})
                cursor.note_passed(batch[-1].entry_id)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await events.close()

    async def _next_batch(self, arrived: asyncio.Queue[QueueEvent], pump: asyncio.Task[None]) -> list[QueueEvent]:
        first = asyncio.ensure_future(arrived.get())
        await asyncio.wait({first, pump}, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            first.cancel()
            pump.result()
            raise RuntimeError("the events ended")
        batch = [first.result()]
        if self.linger:
            await asyncio.sleep(self.linger)
        while len(batch) < self.batch_size and not arrived.empty():
            batch.append(arrived.get_nowait())
        return batch

    def _wants(self, event: QueueEvent) -> bool:
        return (
            (not self.events or event.name in self.events)
            and (not self.job_names or event.job_name in self.job_names)
            and (event.job_id or "").startswith(self.job_id_prefix)
        )


def _describe(event: QueueEvent) -> dict[str, Any]:
    named = {"event": event.name, "job_id": event.job_id, "job_name": event.job_name, "entry_id": event.entry_id}
    # A field may have any name; it does not replace the fields of the event itself.
    fields: dict[str, Any] = to_json({**named, **event.fields, **named})
    return fields


async def _pump(events: QueueEvents, arrived: asyncio.Queue[QueueEvent]) -> None:
    async for event in events:
        await arrived.put(event)


class _StoredCursor:
    """The trigger's cursor in the events stream, kept in the asset's state store."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._passed: deque[tuple[float, str]] = deque()

    async def load(self) -> str | None:
        """The cursor that was stored last."""
        if self._store is None:
            return None
        try:
            kept = await read_asset_state(self._store, _POSITION)
        except ValueError:  # the trigger serves several assets, so there is no single store to ask
            self._store = None
            return None
        return kept if isinstance(kept, str) else None

    async def save(self, entry_id: str) -> None:
        """Stores a cursor."""
        if self._store is not None:
            await write_asset_state(self._store, _POSITION, entry_id)

    def note_passed(self, entry_id: str) -> None:
        """Records that an entry was passed; its id is stored once its asset event is surely stored."""
        self._passed.append((asyncio.get_running_loop().time() + _STORED_AFTER_S, entry_id))

    async def keep(self) -> None:
        """Stores cursors once they are old enough."""
        while True:
            await asyncio.sleep(_STORED_AFTER_S / 5)
            ripe = None
            while self._passed and self._passed[0][0] <= asyncio.get_running_loop().time():
                ripe = self._passed.popleft()[1]
            if ripe is None:
                continue
            try:
                await self.save(ripe)
            except AirflowRuntimeError as err:
                _log.warning("cursor %s in the events is not stored yet: %s", ripe, err)
                self._passed.appendleft((asyncio.get_running_loop().time(), ripe))
