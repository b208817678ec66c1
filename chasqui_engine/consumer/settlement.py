"""Carries out verdicts: ack, retry, bury, drop, each kind in batches, reported only after Redis confirmed it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TypeVar

from chasqui_engine._redis.commands import events, headers, job_logs, settle
from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine._redis.commands.settle import Ack, Bury, Drop, Retry
from chasqui_engine.consumer.batcher import Batcher
from chasqui_engine.consumer.context import ConsumerContext
from chasqui_engine.consumer.failure_log import log_drop
from chasqui_engine.consumer.progress import Progress, ProgressBatcher
from chasqui_engine.consumer.verdict import drop
from chasqui_engine.metrics.events import DlqRouted, RetryScheduled
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.tally import Tally
from chasqui_engine.values.errors import ChasquiError

_log = logging.getLogger("chasqui.consumer")

_MOVED, _NOT_OURS, _FULL = 1, 0, -1
_NO_ID_LEFT = -2
_TO_BE_ABORTED = -3
_FULL_PAUSE_S = 1.0
_LOG_AGAIN_S = 60.0
_LOG_LINES = 1000
"""Approximate number of lines kept in the log of a job."""
_LOG_BATCH = 500
_MOST_LOG_LINES = 10_000
"""At most this many lines waiting to be written; beyond that, a job's newest line replaces its previous one."""
_ACTIVE_BATCH = 256

Moved = TypeVar("Moved", Retry, Bury, Drop)


class Settler:
    """Settles deliveries: ack, retry, bury, drop."""

    def __init__(self, context: ConsumerContext) -> None:
        self._link = context.link
        self._member = context.member
        self._config = config = context.config
        self._in_flight = context.in_flight
        self._buffer = context.buffer
        self._sink = context.sink
        self._job_events = context.job_events
        self._listeners = context.job_events.listeners
        self._events_max = config.events_max
        self.tally = Tally()
        """How the jobs of this worker ended, for the queue's history."""
        self._refused_logged_at = -_LOG_AGAIN_S
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set to the exception when a verdict can never be written."""
        fail, idle_s = self._fail, config.ack_idle_ms / 1000
        self._has_told = False
        self._started: Batcher[tuple[str, str, int, bytes]] = Batcher(self._emit_started, fail, most=_ACTIVE_BATCH)
        self._progress = ProgressBatcher(self._emit_progress, fail, most=_ACTIVE_BATCH)
        self._logs = ProgressBatcher(self._write_logs, fail, most=_MOST_LOG_LINES, at_once=_LOG_BATCH)
        self._acks: Batcher[Ack] = Batcher(self._ack, fail, most=config.ack_batch, idle_s=idle_s)
        self.ack = self._acks.add
        """Acks a job that succeeded; a separate method saves a call on the hottest path."""
        self._retries: Batcher[Retry] = Batcher(self._retry, fail, most=config.retry_inflight, idle_s=idle_s)
        self._burials: Batcher[Bury] = Batcher(self._bury, fail, most=config.dlq_inflight, idle_s=idle_s)
        self._drops: Batcher[Drop] = Batcher(self._drop, fail, most=config.dlq_inflight, idle_s=idle_s)

    def note_start(self, job_id: str, attempt: int, delivery: Delivery) -> None:
        """Emits `active` before a handler runs."""
        if self._events_max:
            self._started.add((job_id, delivery.name, attempt, delivery.entry_id))

    def progress(self, job_id: str, name: str, progress: str) -> None:
        """Takes a handler's progress, from any thread."""
        if self._events_max:
            self._progress.add((job_id, name, progress))

    def log(self, job_id: str, name: str, line: str) -> None:
        """Takes a line of a handler's log, from any thread."""
        self._logs.add((job_id, name, line))

    def retry(self, verdict: Retry) -> None:
        """Schedules another run."""
        self._retries.add(verdict)

    def bury(self, verdict: Bury) -> None:
        """Buries a job."""
        self._burials.add(verdict)

    def drop(self, verdict: Drop) -> None:
        """Ends a job that was aborted or has expired."""
        self._drops.add(verdict)

    def forget(self, delivery: Delivery) -> None:
        """Forgets an entry that another worker owns, or that is gone."""
        self._in_flight.release(delivery)
        self._buffer.nudge()

    async def flush(self) -> None:
        """Waits until the verdicts so far are written."""
        settled = (self._acks, self._retries, self._burials, self._drops)
        await asyncio.gather(*(batcher.flush() for batcher in settled))

    async def drain(self) -> None:
        """Waits until every verdict so far is written."""
        emitted = self._started.drain(), self._progress.drain(), self._logs.drain()
        await asyncio.gather(*emitted, self._acks.drain(), self._retries.drain(), self._burials.drain())
        # Last: a retry of a job that is to be aborted becomes a drop.
        await self._drops.drain()

    def _fail(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _after_started(self) -> None:
        """Sends the `active` event, progress and log of a job before its verdict."""
        if not self._logs.is_idle:
            await self._logs.flush()
        if self._events_max:
            if not self._has_told:
                # The server may not know the script of the first ones yet: sent again, they would be overtaken.
                self._has_told = True
                await self._started.flush()
            self._started.start()
            # Progress is rare: it is awaited, so that it cannot be overtaken.
            await self._progress.flush()
            await asyncio.sleep(0)

    async def _emit_started(self, jobs: list[tuple[str, str, int, bytes]]) -> None:
        try:
            await events.emit_active(self._link, self._member.keys, jobs, events_max=self._events_max)
        except ChasquiError as err:
            _log.info("dropped %d 'active' events of queue %s: %s", len(jobs), self._member.keys.queue, err)

    async def _emit_progress(self, jobs: list[Progress]) -> None:
        await self._started.flush()
        try:
            await events.emit_progress(self._link, self._member.keys, jobs, events_max=self._events_max)
        except ChasquiError as err:
            _log.info("dropped %d 'progress' events of queue %s: %s", len(jobs), self._member.keys.queue, err)

    async def _write_logs(self, lines: list[Progress]) -> None:
        ttl_s, said = self._config.result_ttl_secs, [(job_id, line) for job_id, _name, line in lines]
        try:
            await job_logs.append(self._link, self._member.keys, said, max_lines=_LOG_LINES, ttl_s=ttl_s)
        except ChasquiError as err:
            _log.warning("queue %s: %d line(s) of job logs were lost: %s", self._member.keys.queue, len(lines), err)

    async def _ack(self, acks: list[Ack]) -> None:
        await self._after_started()
        ttl_s = self._config.result_ttl_secs if self._config.store_results else 0
        lost = await settle.ack(self._link, self._member, acks, events_max=self._events_max, result_ttl_s=ttl_s)
        gone = set(lost)
        if gone:
            self._log_lost([one.job_id for one in acks if one.delivery.entry_id in gone])
        self.tally.add_completed([one for one in acks if one.delivery.entry_id not in gone] if gone else acks)
        for one in acks:
            self._in_flight.release(one.delivery)
        self._buffer.nudge()
        if self._listeners.hear_jobs:
            self._job_events.settle([one.delivery for one in acks if one.delivery.entry_id not in gone], gone)
        carried = [one for one in acks if one.delivery.headers and one.delivery.entry_id not in gone]
        if carried:
            await self._forget_headers([(one.job_id, one.delivery.headers) for one in carried])

    async def _forget_headers(self, jobs: list[tuple[str, bytes]]) -> None:
        try:
            await headers.forget(self._link, self._member.keys, jobs)
        except ChasquiError as err:
            _log.info(
                "queue %s: the headers of %d ended jobs stay for a day: %s", self._member.keys.queue, len(jobs), err
            )

    async def _retry(self, retries: list[Retry]) -> None:
        await self._after_started()
        while retries:
            replies = await settle.retry(self._link, self._member, retries, events_max=self._events_max)
            for one in self._release_settled(retries, replies):
                if one.error:
                    self.tally.add_failed(one.delivery.name, one.duration_us)
                self._sink.retry_scheduled(
                    RetryScheduled(attempt=one.attempt + 1, backoff_ms=one.backoff_ms, name=one.delivery.name)
                )
            for one in self._select(retries, replies, _TO_BE_ABORTED):
                self.drop(drop(one.delivery, "aborted", one.job_id, one.attempt, one.duration_us))
            retries = await self._wait_for_refused(retries, replies)

    async def _bury(self, burials: list[Bury]) -> None:
        await self._after_started()
        config = self._config
        while burials:
            replies = await settle.bury(
                self._link,
                self._member,
                burials,
                events_max=self._events_max,
                dlq_max=config.dlq_max_stream_len,
                failure_ttl_s=config.result_ttl_secs,
            )
            for one in self._release_settled(burials, replies):
                self.tally.add_failed(one.delivery.name, one.duration_us)
                self.tally.add_dead(one.delivery.name)
                self._sink.dlq_routed(DlqRouted(reason=one.reason, attempt=one.attempt, name=one.delivery.name))
            burials = await self._wait_for_refused(burials, replies)

    async def _drop(self, drops: list[Drop]) -> None:
        await self._after_started()
        ttl_s = self._config.result_ttl_secs
        replies = await settle.drop(self._link, self._member, drops, events_max=self._events_max, failure_ttl_s=ttl_s)
        for one in self._release_settled(drops, replies):
            log_drop(self._member.keys.queue, one)

    def _release_settled(self, verdicts: Sequence[Moved], replies: Sequence[int]) -> list[Moved]:
        """Forgets settled entries; returns those that this worker settled."""
        ours = []
        for one, reply in zip(verdicts, replies, strict=True):
            if reply == _MOVED:
                ours.append(one)
            elif reply == _NOT_OURS:
                self._log_lost([one.job_id or "?"])
            if reply in (_MOVED, _NOT_OURS):
                self.forget(one.delivery)
        if self._listeners.hear_jobs:
            settled = zip(verdicts, replies, strict=True)
            lost = [one.delivery.entry_id for one, reply in settled if reply == _NOT_OURS]
            self._job_events.settle([one.delivery for one in ours], lost)
        return ours

    async def _wait_for_refused(self, verdicts: Sequence[Moved], replies: Sequence[int]) -> list[Moved]:
        """Retries what a full server refused, after a pause."""
        left = self._select(verdicts, replies, _FULL, _NO_ID_LEFT)
        if left:
            self._log_refused(len(left), _NO_ID_LEFT in replies)
            await asyncio.sleep(_FULL_PAUSE_S)
        return left

    def _select(self, verdicts: Sequence[Moved], replies: Sequence[int], *wanted: int) -> list[Moved]:
        """The verdicts that got one of these replies."""
        return [one for one, reply in zip(verdicts, replies, strict=True) if reply in wanted]

    def _log_refused(self, count: int, no_id_left: bool) -> None:
        if monotonic() - self._refused_logged_at < _LOG_AGAIN_S:
            return
        self._refused_logged_at = monotonic()
        queue = self._member.keys.queue
        if no_id_left:
            _log.warning(
                "queue %s: the dead-letter stream has used its last id and accepts no more; %d jobs wait to be buried. "
                "`chasqui doctor` says what to do",
                queue,
                count,
            )
        else:
            _log.warning("queue %s: the server is full; %d jobs wait to be moved", queue, count)

    def _log_lost(self, job_ids: list[str]) -> None:
        _log.warning(
            "queue %s: consumer %s lost jobs %s before they were settled: the reply to an earlier write was lost, "
            "another worker claimed them, or they were removed. Nothing was changed",
            self._member.keys.queue,
            self._member.consumer,
            ", ".join(map(repr, job_ids[:10])),
        )
