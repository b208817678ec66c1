"""Waiting for results: any number of waiters of a queue share one subscription and batched reads.

The events stream reports when a job has ended; the result itself is a key. A sweep over all waiting ids, once a second,
covers workers that emit no events.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import Any

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import events, locks
from chasqui_engine._redis.commands import results as results_commands
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import decode_failure, decode_payload, decode_traceback
from chasqui_engine.events.event import event_error
from chasqui_engine.runtime.aio import cancel_and_wait, sleep_until
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import (
    ChasquiError,
    RedisError,
    RefusedError,
    ResultUnavailableError,
    ShutdownError,
    job_failure,
)

_log = logging.getLogger("chasqui.results")

_SWEEP_S = 1.0
_GRACE_S = 1.0
"""How long after `completed` a result may still be missing: another engine may emit the event before it writes."""
_EVENTS_PER_READ = 1000
_BLOCK_MS = 5000
_LOOK_BACK_MS = 2000
"""How far back the subscription begins: the job may have ended before the wait began."""
_REMEMBERED_S = 30.0
_MOST_REMEMBERED = 50_000
_ENDS = ("completed", "dlq", "aborted", "expired")
"""Events after which there is something to read."""
_COUNT = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended: with a value, or with the error that its waiters get."""

    value: Any = None
    error: ChasquiError | None = None

    def get(self) -> Any:
        """The value; raises the error."""
        if self.error is not None:
            raise self.error
        return self.value


class _Waited:
    """A job with waiters."""

    __slots__ = ("dead", "dead_at", "future", "last_error", "waiters")

    def __init__(self, future: asyncio.Future[Outcome]) -> None:
        self.future = future
        self.waiters = 0
        self.dead: tuple[str, int] | None = None
        self.last_error: str | None = None
        self.dead_at = float("inf")
        """When its `dlq` event was read."""


class ResultHub:
    """All waits for results of one queue."""

    def __init__(self, reads: Link, subscription: Link, keys: QueueKeys) -> None:
        self._reads = reads
        self._subscription = subscription
        self._keys = keys
        self._waited: dict[str, _Waited] = {}
        # When each event was read. Also jobs without waiters: the first of a bulk end before their producer can wait.
        self._completed: dict[str, float] = {}
        self._ended: set[str] = set()
        self._look = asyncio.Event()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._subscribed: asyncio.Future[None] | None = None

    async def wait(self, job_id: str, timeout_s: float) -> Any:
        """What the job's handler returned; raises `JobFailedError` if it died, or `TimeoutError`."""
        async with asyncio.timeout(timeout_s):
            await self._start()
            waited = self._waited.setdefault(job_id, _Waited(asyncio.get_running_loop().create_future()))
            waited.waiters += 1
            # It may have ended before the first wait.
            self._ended.add(job_id)
            self._look.set()
            try:
                return (await asyncio.shield(waited.future)).get()
            finally:
                waited.waiters -= 1
                if not waited.waiters:
                    self._waited.pop(job_id, None)

    async def close(self) -> None:
        """Stops; remaining waits raise `ShutdownError`."""
        await cancel_and_wait(*self._tasks)
        closed = ShutdownError("the queue was closed while waiting for a result")
        for job_id in self._waited:
            self._resolve(job_id, Outcome(error=closed))
        if self._subscribed is not None and not self._subscribed.done():
            self._subscribed.set_exception(closed)
            self._subscribed.exception()

    async def _start(self) -> None:
        if self._subscribed is None:
            self._subscribed = asyncio.get_running_loop().create_future()
            self._tasks = (asyncio.create_task(self._follow()), asyncio.create_task(self._fetch()))
        await asyncio.shield(self._subscribed)

    async def _follow(self) -> None:
        assert self._subscribed is not None
        last_id: str | None = None
        while True:
            try:
                if last_id is None:
                    last_id = f"{await locks.server_now_ms(self._subscription) - _LOOK_BACK_MS}-0"
                    self._subscribed.set_result(None)
                entries = await events.read_events(
                    self._subscription, self._keys, last_id, count=_EVENTS_PER_READ, block_ms=_BLOCK_MS
                )
            except RedisError as err:
                _log.warning("results of %s: %s; retrying", self._keys.queue, err)
                await asyncio.sleep(_SWEEP_S)
                continue
            for entry_id, fields in entries:
                last_id = entry_id
                self._note(fields.get("id", ""), fields)
            self._forget_old()

    def _note(self, job_id: str, fields: dict[str, str]) -> None:
        kind = fields.get("e")
        if kind == "completed":
            self._completed[job_id] = monotonic()
        elif kind != "waiting":  # another engine may emit that after the job has ended
            self._completed.pop(job_id, None)
        waited = self._waited.get(job_id)
        if waited is None:
            return
        if kind == "failed":
            waited.last_error = event_error(fields)
        elif kind == "dlq":
            attempt = fields.get("attempt", "0")
            waited.dead = fields.get("reason", "dlq"), int(attempt) if _COUNT.fullmatch(attempt) else 0
            waited.dead_at = monotonic()
        # Of an abort and an expiry only the record counts: the id is free after them, and may be another job's by now.
        if kind in _ENDS:
            self._ended.add(job_id)
            self._look.set()

    def _forget_old(self) -> None:
        too_old = monotonic() - _REMEMBERED_S
        while self._completed:
            job_id, read_at = next(iter(self._completed.items()))
            if read_at > too_old and len(self._completed) <= _MOST_REMEMBERED:
                return
            del self._completed[job_id]

    async def _fetch(self) -> None:
        """Reads results of ended jobs at once, and of all awaited jobs once a second."""
        next_sweep = monotonic() + _SWEEP_S
        while True:
            await sleep_until(self._look, next_sweep - monotonic())
            # Checked also under load, or jobs of workers without events would starve.
            if monotonic() >= next_sweep:
                next_sweep = monotonic() + _SWEEP_S
                self._ended.update(self._waited)
            self._look.clear()
            ended, self._ended = self._ended & self._waited.keys(), set()
            try:
                await self._settle(list(ended))
            except RefusedError as err:
                for job_id in self._waited:
                    self._resolve(job_id, Outcome(error=err))
            except RedisError as err:
                _log.warning("results of %s: %s; retrying", self._keys.queue, err)

    async def _settle(self, job_ids: list[str]) -> None:
        asked_at = monotonic()
        results = await results_commands.get_results(self._reads, self._keys, job_ids)
        missing = []
        for job_id, result in zip(job_ids, results, strict=True):
            if result is None:
                missing.append(job_id)
            else:
                self._resolve(job_id, _success(result))
        failures = await results_commands.get_failures(self._reads, self._keys, missing)
        for job_id, failure in zip(missing, failures, strict=True):
            if failure is None:
                self._resolve_without_record(job_id, asked_at)
            else:
                self._resolve(job_id, _death(job_id, failure))

    def _resolve_without_record(self, job_id: str, asked_at: float) -> None:
        waited = self._waited.get(job_id)
        completed_at = self._completed.get(job_id)
        # An event that came while the record was read: the record may exist by now, and is read again.
        if waited is not None and waited.dead is not None and waited.dead_at < asked_at:
            # Buried by an engine that leaves no failure record.
            reason, attempt = waited.dead
            self._resolve(job_id, Outcome(error=job_failure(job_id, reason, waited.last_error, attempt)))
        elif completed_at is not None and asked_at - completed_at > _GRACE_S:
            self._resolve(job_id, Outcome(error=_unavailable(job_id)))

    def _resolve(self, job_id: str, outcome: Outcome) -> None:
        waited = self._waited.get(job_id)
        if waited is not None and not waited.future.done():
            waited.future.set_result(outcome)


def _success(data: bytes) -> Outcome:
    try:
        return Outcome(value=decode_payload(data))
    except ChasquiError as err:
        return Outcome(error=err)


def _death(job_id: str, data: bytes) -> Outcome:
    try:
        return Outcome(error=job_failure(job_id, *decode_failure(data), decode_traceback(data)))
    except ChasquiError as err:
        return Outcome(error=err)


def _unavailable(job_id: str) -> ResultUnavailableError:
    return ResultUnavailableError(
        f"job {job_id} completed, but its result is not stored: its worker runs without store_results=True, "
        "or the result has expired"
    )
