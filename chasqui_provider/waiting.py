"""Waiting for jobs to end: one place for sensors, operators and triggers.

Every wait of a process on one connection and queue shares one `Queue`, and so one subscription and batched reads,
however many there are. A job that ended before anybody waited, and whose result is gone, is found in the events
stream: one look through it serves all who began to wait at about the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from chasqui_engine import JobFailedError, Queue, QueueEvent, QueueEvents, RedisError, ResultUnavailableError
from chasqui_provider.connection import Settings
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.values import to_json

_log = logging.getLogger(__name__)

_FOR_EVER_S = 10 * 365 * 86_400.0
_PATIENCE_S = 2.0
"""How long a result may be on its way before the events are searched for the job's end."""
_LONGEST_PATIENCE_S = 600.0
_QUIET_S = 0.5
"""The events stream is read to its end when nothing came for so long."""
_SETTLED_MS = 1500
"""An end told so long ago is past: its result was written, and read by whoever waited for it then."""
_RETRY_S = 1.0

COMPLETED, DEAD, EXPIRED = "completed", "dead", "expired"

Ending = dict[str, Any]
"""How a job ended, as JSON: `job_id`, `status`, and `result`, or `reason`, `detail` and `attempt`."""


def _completed(job_id: str, result: Any) -> Ending:
    return {"job_id": job_id, "status": COMPLETED, "result": to_json(result)}


def _dead(job_id: str, reason: str, detail: str | None, attempt: int) -> Ending:
    return {"job_id": job_id, "status": DEAD, "reason": reason, "detail": detail, "attempt": attempt}


def _expired(job_id: str) -> Ending:
    return {"job_id": job_id, "status": EXPIRED}


class _Asked:
    """One wait for which the past may have to be searched."""

    __slots__ = ("found", "job_id", "patience_s", "search_at", "since_ms")

    def __init__(self, job_id: str, since_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self.job_id = job_id
        self.since_ms = since_ms
        self.found: asyncio.Future[Ending] = loop.create_future()
        self.patience_s = _PATIENCE_S
        self.search_at = loop.time() + self.patience_s

    def take(self, told: asyncio.Task[Ending]) -> None:
        """Takes what the wait itself was told."""
        if told.cancelled() or self.found.done():
            return
        if (error := told.exception()) is not None:
            self.found.set_exception(error)
        else:
            self.found.set_result(told.result())

    def searched(self) -> None:
        """Nothing was found: the next search has time."""
        self.patience_s = min(self.patience_s * 8, _LONGEST_PATIENCE_S)
        self.search_at = asyncio.get_running_loop().time() + self.patience_s


class Waits:
    """The waits on one queue."""

    def __init__(self, settings: Settings, queue_name: str | None) -> None:
        self._settings = settings
        self.queue = Queue(settings.name_of(queue_name), redis_url=settings.url, **settings.queue_options)
        self._asked: set[_Asked] = set()
        self._searching: asyncio.Task[None] | None = None

    async def ending(self, job_id: str, since_ms: int = 0) -> Ending:
        """How a job ends; waits for it. What the events tell from before `since_ms` is of an earlier run of the id."""
        asked = _Asked(job_id, since_ms)
        told = asyncio.create_task(self._told(job_id))
        told.add_done_callback(asked.take)
        self._asked.add(asked)
        if self._searching is None:
            self._searching = asyncio.create_task(self._search())
        try:
            return await asked.found
        finally:
            self._asked.discard(asked)
            told.cancel()

    async def endings(self, job_ids: Sequence[str], *, stop_at_death: bool, since_ms: int = 0) -> list[Ending]:
        """How several jobs end, in their order; with `stop_at_death`, what is known when the first one is dead."""
        if len(job_ids) == 1:
            return [await self.ending(job_ids[0], since_ms)]
        waits = [asyncio.ensure_future(self.ending(job_id, since_ms)) for job_id in job_ids]
        try:
            for finished in asyncio.as_completed(waits):
                if (await finished)["status"] != COMPLETED and stop_at_death:
                    break
            return [wait.result() for wait in waits if wait.done()]
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def close(self) -> None:
        """Ends the connections."""
        if self._searching is not None:
            self._searching.cancel()
            await asyncio.gather(self._searching, return_exceptions=True)
        await self.queue.close()

    async def _told(self, job_id: str) -> Ending:
        while True:
            try:
                return _completed(job_id, await self.queue.wait_for_result(job_id, timeout=_FOR_EVER_S))
            except JobFailedError as err:
                return _dead(job_id, err.reason, err.detail, err.attempt)
            except ResultUnavailableError:
                return _expired(job_id)
            except RedisError as err:
                _log.warning("waiting for %s: %s; trying on", job_id, err)
                await asyncio.sleep(_RETRY_S)

    async def _search(self) -> None:
        """Looks into the past for those who wait in vain, ever more rarely, as long as there are any."""
        now = asyncio.get_running_loop().time
        while self._asked:
            await asyncio.sleep(_PATIENCE_S / 4)
            asked = {one for one in self._asked if one.search_at <= now()}
            if not asked:
                continue
            try:
                await self._tell(await self._last_events(asked))
            except RedisError as err:
                _log.warning("searching the events of %s: %s; trying on", self.queue.name, err)
            for one in asked:
                one.searched()
        self._searching = None

    async def _tell(self, ended: dict[_Asked, Ending]) -> None:
        await asyncio.sleep(_QUIET_S if ended else 0)
        left = [one for one in ended if not one.found.done() and one in self._asked]
        results = await self.queue.get_job_result_bulk([one.job_id for one in left])
        for one, result in zip(left, results, strict=True):
            # A result that is there is told by the wait itself.
            if result is None and not one.found.done():
                one.found.set_result(ended[one])

    async def _last_events(self, asked: set[_Asked]) -> dict[_Asked, Ending]:
        """Of the jobs asked for, those whose latest event is an end."""
        by_id: dict[str, list[_Asked]] = {}
        for one in asked:
            by_id.setdefault(one.job_id, []).append(one)
        ended: dict[_Asked, Ending] = {}
        errors: dict[str, str] = {}
        settled_ms = int(time.time() * 1000) - _SETTLED_MS
        events = QueueEvents(self.queue.name, redis_url=self._settings.url, last_event_id="0", count=1000)
        try:
            steps = aiter(events)
            while (event := await _next_event(steps)) is not None and _ms_of(event) <= settled_ms:
                job_id = event.job_id or ""
                if event.name == "failed":
                    errors[job_id] = str(event.fields.get("reason", ""))
                for one in by_id.get(job_id, ()):
                    if event.fields.get("ts", 0) >= one.since_ms:
                        _note(ended, one, event, errors.get(job_id))
        finally:
            await events.close()
        return ended


def _note(ended: dict[_Asked, Ending], one: _Asked, event: QueueEvent, error: str | None) -> None:
    if event.name == "completed":
        ended[one] = _expired(one.job_id)
    elif event.name == "dlq":
        attempt = event.fields.get("attempt", 0)
        ended[one] = _dead(one.job_id, str(event.fields.get("reason", "")), error, int(attempt))
    else:
        # It has begun anew since.
        ended.pop(one, None)


def _ms_of(event: QueueEvent) -> int:
    return int(event.entry_id.partition("-")[0])


async def _next_event(steps: AsyncIterator[Any]) -> Any:
    with contextlib.suppress(TimeoutError, StopAsyncIteration):
        return await asyncio.wait_for(anext(steps), _QUIET_S)
    return None


class _Shared:
    """A `Waits` with those who use it counted."""

    def __init__(self, chasqui_conn_id: str, queue_name: str | None) -> None:
        self.users = 0
        self.opening = asyncio.create_task(self._open(chasqui_conn_id, queue_name))

    @staticmethod
    async def _open(chasqui_conn_id: str, queue_name: str | None) -> Waits:
        return Waits(await ChasquiHook(chasqui_conn_id).get_settings(), queue_name)

    async def close(self) -> None:
        if self.opening.done() and not self.opening.cancelled() and self.opening.exception() is None:
            await self.opening.result().close()
        self.opening.cancel()


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str | None], _Shared]] = WeakKeyDictionary()


@contextlib.asynccontextmanager
async def shared_waits(chasqui_conn_id: str, queue_name: str | None) -> AsyncIterator[Waits]:
    """The waits on one connection and queue of this event loop: opened by the first who asks, closed by the last."""
    of_loop = _shared.setdefault(asyncio.get_running_loop(), {})
    key = chasqui_conn_id, queue_name
    shared = of_loop.get(key)
    if shared is None:
        shared = of_loop[key] = _Shared(*key)
    shared.users += 1
    try:
        yield await asyncio.shield(shared.opening)
    finally:
        shared.users -= 1
        if not shared.users:
            if of_loop.get(key) is shared:
                del of_loop[key]
            await shared.close()
