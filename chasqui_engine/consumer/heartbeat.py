"""The heartbeat: renews the lease of entries in flight, and the worker's entry among those of its queue, on its own
connection, in the heartbeat thread.

A handler that blocks the event loop stops everything in it except this.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging

from chasqui_engine._redis.client.connector import FOR_EVER, Connector
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import GroupMember
from chasqui_engine.consumer import heartbeat_thread
from chasqui_engine.consumer.in_flight import InFlight
from chasqui_engine.consumer.presence.presence import Presence
from chasqui_engine.runtime.aio import Stop, cancel_and_wait, sleep_until
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import error_text

_log = logging.getLogger("chasqui.consumer")

BEATS_PER_IDLE = 3
"""Heartbeats per claim_min_idle, after which a silent worker's jobs are reclaimed."""
_SHORTEST_PATIENCE_S = 0.5
_LOOK_EVERY_S = 0.5
_ANSWERS_WITHIN_S = 1.0
_ENDS_WITHIN_S = 2.0


class Heartbeat:
    """Runs from `start` to `stop`."""

    def __init__(
        self,
        connector: Connector,
        member: GroupMember,
        in_flight: InFlight,
        claim_min_idle_ms: int,
        shutdown: Stop,
        deadline_s: float,
        presence: Presence,
    ) -> None:
        self._connector = connector
        self._member = member
        self._in_flight = in_flight
        self._interval_s = claim_min_idle_ms / 1000 / BEATS_PER_IDLE
        self._shutdown = shutdown
        self._deadline_s = deadline_s
        self._presence = presence
        self._worker_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._beating: concurrent.futures.Future[None] | None = None

    def start(self) -> None:
        """Starts the heartbeats."""
        self._loop = heartbeat_thread.join()
        self._beating = asyncio.run_coroutine_threadsafe(self._beat(), self._loop)

    async def stop(self) -> None:
        """Stops, and waits until it has."""
        if self._loop is None or self._beating is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        await asyncio.wait([asyncio.wrap_future(self._beating)], timeout=_ENDS_WITHIN_S)
        self._loop = self._beating = None
        heartbeat_thread.leave()

    async def _beat(self) -> None:
        link = self._connector.link(FOR_EVER)
        beating = asyncio.create_task(self._beat_on(link, self._stop))
        watching = asyncio.create_task(self._watch_the_deadline(link, self._stop, beating))
        telling = asyncio.create_task(self._presence.run(link, self._stop))
        try:
            await self._stop.wait()
            await cancel_and_wait(beating, watching, telling)
            await self._presence.leave(link)
        finally:  # also when the thread ends before this has
            await self._connector.close()

    async def _beat_on(self, link: Link, stop: asyncio.Event) -> None:
        silent, patience_s = False, max(self._interval_s, _SHORTEST_PATIENCE_S)
        while True:
            asked_at = monotonic()
            try:
                if entry_ids := self._in_flight.entry_ids():
                    async with asyncio.timeout(patience_s):
                        lost = await group.heartbeat(link, self._member, entry_ids)
                    self._in_flight.note_heartbeat(asked_at, lost)
                silent = False
            except TimeoutError:
                # Another connection may get through before our jobs are reclaimed.
                link.drop()
                if not silent:
                    # No answer, or repeated errors; the link has logged which.
                    _log.warning(
                        "heartbeat of %s: no answer within %.1f s; retrying", self._member.consumer, patience_s
                    )
                silent = True
            except Exception as err:  # noqa: BLE001 - a credential provider may raise anything; without heartbeats the jobs are reclaimed
                _log.warning("heartbeat of %s: %s; retrying", self._member.consumer, error_text(err))
            await sleep_until(stop, max(0.001, self._interval_s - (monotonic() - asked_at)))

    async def _watch_the_deadline(self, link: Link, stop: asyncio.Event, beating: asyncio.Task[None]) -> None:
        """Releases the jobs of handlers that block the event loop past the deadline, since the loop cannot."""
        while not self._shutdown.is_set():
            await sleep_until(stop, _LOOK_EVERY_S)
        await sleep_until(stop, self._deadline_s)
        while await self._worker_answers():
            await sleep_until(stop, _LOOK_EVERY_S)
        await cancel_and_wait(beating)
        count = await group.remove_consumer(link, self._member)
        _log.warning("a handler blocks the event loop past the shutdown deadline; %d jobs go to other workers", count)

    async def _worker_answers(self) -> bool:
        """Whether the worker's event loop is running."""
        assert self._loop is not None
        answer, answered = asyncio.Event(), self._loop.call_soon_threadsafe
        self._worker_loop.call_soon_threadsafe(lambda: answered(answer.set))
        await sleep_until(answer, _ANSWERS_WITHIN_S)
        return answer.is_set()
