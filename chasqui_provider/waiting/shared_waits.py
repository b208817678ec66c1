"""Waits for jobs to end, shared by sensors, operators and triggers.

Every wait of a process on one connection and queue shares one client, and so one subscription and batched reads,
however many there are. A job that ended before anybody waited, and whose result is gone, is found in the queue's past:
one search serves all who began to wait at about the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Sequence
from weakref import WeakKeyDictionary

from chasqui_engine import (
    ChasquiError,
    JobFailedError,
    JobState,
    Queue,
    RedisError,
    RefusedError,
    ResultUnavailableError,
)
from chasqui_engine.admin import PastOutcome
from chasqui_provider.connection.settings import Settings
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.waiting.outcome import COMPLETED, Outcome, completed_outcome, dead_outcome, expired_outcome

_log = logging.getLogger(__name__)

_FOR_EVER_S = 10 * 365 * 86_400.0
_PATIENCE_S = 2.0
"""How long to wait for a result before the history is searched for the job's outcome."""
_LONGEST_PATIENCE_S = 600.0
_QUIET_S = 0.5
"""After this time, waiters have received what was found or written."""
_SETTLED_MS = 1500
"""After this time, the result of an ended job has been written, and read by its waiters."""
_LOOKUPS = 20
"""At most this many jobs per search of the dead letters, where each costs a lookup."""
_REST = 9
"""Searching takes at most a tenth of the time, regardless of the number of events and waits."""
_LONGEST_LOOK_S = 20.0
_RETRY_S = 1.0


class _Asked:
    """One wait for which the history may have to be searched."""

    __slots__ = ("found", "job_id", "patience_s", "search_at", "since_ms")

    def __init__(self, job_id: str, since_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self.job_id = job_id
        self.since_ms = since_ms
        self.found: asyncio.Future[Outcome] = loop.create_future()
        self.patience_s = _PATIENCE_S
        self.search_at = loop.time() + self.patience_s

    def take(self, waited: asyncio.Task[Outcome]) -> None:
        """Receives the outcome of the wait itself."""
        if waited.cancelled() or self.found.done():
            return
        if (error := waited.exception()) is not None:
            self.found.set_exception(error)
        else:
            self.found.set_result(waited.result())

    def postpone_search(self) -> None:
        """Nothing was found: the next search can wait longer."""
        self.patience_s = min(self.patience_s * 8, _LONGEST_PATIENCE_S)
        self.search_at = asyncio.get_running_loop().time() + self.patience_s


class Waits:
    """All waits on one queue."""

    def __init__(self, settings: Settings, queue_name: str | None) -> None:
        self._settings = settings
        self.queue = Queue(settings.name_of(queue_name), redis_url=settings.url, **settings.queue_options)
        self._asked: set[_Asked] = set()
        self._without_events: dict[_Asked, None] = {}
        self._searched = asyncio.Event()
        self._searching: asyncio.Task[None] | None = None

    async def wait_for_outcome(self, job_id: str, since_ms: int = 0) -> Outcome:
        """Waits for a job's outcome. Events from before `since_ms` belong to an earlier job with this id."""
        asked = _Asked(job_id, since_ms)
        waited = asyncio.create_task(self._wait_for(job_id))
        waited.add_done_callback(asked.take)
        self._asked.add(asked)
        if self._searching is None:
            self._searching = asyncio.create_task(self._search())
        try:
            return await asked.found
        finally:
            self._asked.discard(asked)
            waited.cancel()

    async def wait_for_outcomes(
        self, job_ids: Sequence[str], *, stop_at_death: bool, since_ms: int = 0
    ) -> list[Outcome]:
        """Waits for several outcomes, in order; with `stop_at_death`, returns what is known at the first death."""
        if len(job_ids) == 1:
            return [await self.wait_for_outcome(job_ids[0], since_ms)]
        waits = [asyncio.ensure_future(self.wait_for_outcome(job_id, since_ms)) for job_id in job_ids]
        try:
            for finished in asyncio.as_completed(waits):
                if (await finished)["status"] != COMPLETED and stop_at_death:
                    break
            return [wait.result() for wait in waits if wait.done()]
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def find_outcomes_by_now(self, job_ids: Sequence[str], *, stop_at_death: bool) -> list[Outcome] | None:
        """Like `wait_for_outcomes`, but searches the history only once; None if some jobs have not ended."""
        waiting = asyncio.ensure_future(self.wait_for_outcomes(job_ids, stop_at_death=stop_at_death))
        searched = asyncio.ensure_future(self._searched.wait())
        try:
            await asyncio.wait({waiting, searched}, timeout=_LONGEST_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait({waiting}, timeout=_QUIET_S)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            searched.cancel()
            await asyncio.gather(waiting, searched, return_exceptions=True)

    async def close(self) -> None:
        """Closes the connections."""
        if self._searching is not None:
            self._searching.cancel()
            await asyncio.gather(self._searching, return_exceptions=True)
        await self.queue.close()

    async def _wait_for(self, job_id: str) -> Outcome:
        while True:
            try:
                return completed_outcome(job_id, await self.queue.wait_for_result(job_id, timeout=_FOR_EVER_S))
            except JobFailedError as err:
                return dead_outcome(job_id, err.reason, err.detail, err.attempt)
            except ResultUnavailableError:
                return expired_outcome(job_id)
            except RefusedError as err:
                raise self._settings.name_in(err) from err
            except RedisError as err:
                _log.warning("waiting for job %s: %s; retrying", job_id, self._settings.name_in(err))
                await asyncio.sleep(_RETRY_S)

    async def _search(self) -> None:
        """Searches the history for the jobs that are waited for, at growing intervals."""
        now = asyncio.get_running_loop().time
        pause_s = _PATIENCE_S / 4
        while self._asked:
            await asyncio.sleep(pause_s)
            asked = {one for one in self._asked if one.search_at <= now()}
            if not asked and not self._without_events:
                continue
            begun = now()
            try:
                ended = await self._find_outcomes(asked)
                pause_s = max(_PATIENCE_S / 4, (now() - begun) * _REST)
                await self._deliver(ended)
            except ChasquiError as err:
                _log.warning("searching the history of queue %s: %s; retrying", self.queue.name, err)
            for one in asked:
                one.postpone_search()
            self._searched.set()
        self._searching = None

    async def _find_outcomes(self, asked: set[_Asked]) -> dict[_Asked, Outcome]:
        """The outcomes of those requested jobs that the history contains."""
        ended: dict[_Asked, Outcome] = {}
        settled_ms = int(time.time() * 1000) - _SETTLED_MS
        if asked:
            since_ms = min(one.since_ms for one in asked)
            known = await self.queue.find_outcomes([one.job_id for one in asked], since_ms=since_ms)
            for one in asked:
                last = known.get(one.job_id)
                if last and one.since_ms <= last.at_ms <= settled_ms and (outcome := _outcome_of(one.job_id, last)):
                    ended[one] = outcome
            # In random order, so that repeated searches for many jobs eventually reach all of them.
            without_events = [one for one in asked if one.job_id not in known]
            self._without_events |= dict.fromkeys(random.sample(without_events, len(without_events)))
        return ended | await self._find_dead()

    async def _find_dead(self) -> dict[_Asked, Outcome]:
        """The dead letters among the jobs without events; a limited number at a time."""
        self._without_events = {one: None for one in self._without_events if one in self._asked}
        if not self._without_events:
            return {}
        if not (await self.queue.counts()).dead:
            self._without_events.clear()
        found: dict[_Asked, Outcome] = {}
        for one in list(self._without_events)[:_LOOKUPS]:
            del self._without_events[one]
            info = await self.queue.get_job(one.job_id)
            if info.state is JobState.DEAD and (info.created_at_ms or 0) >= one.since_ms:
                found[one] = dead_outcome(one.job_id, info.reason or "", info.last_error, info.attempt or 0)
        return found

    async def _deliver(self, ended: dict[_Asked, Outcome]) -> None:
        await asyncio.sleep(_QUIET_S if ended else 0)
        left = [one for one in ended if not one.found.done() and one in self._asked]
        results = await self.queue.get_job_result_bulk([one.job_id for one in left])
        for one, result in zip(left, results, strict=True):
            # An existing result is delivered by the wait itself.
            if result is None and not one.found.done():
                one.found.set_result(ended[one])


def _outcome_of(job_id: str, last: PastOutcome) -> Outcome | None:
    """How a job ended without a result; None if it has not ended."""
    if last.state is JobState.COMPLETED:
        return expired_outcome(job_id)
    return dead_outcome(job_id, last.reason, last.error, last.attempt) if last.state is JobState.DEAD else None


class _Shared:
    """A `Waits` with a count of its users."""

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
    """The waits on one connection and queue of this event loop: opened by the first user, closed by the last."""
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
