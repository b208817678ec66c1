"""Carrying out verdicts: acks, retries and burials, each kind in batches, each told only after Redis confirmed it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TypeVar

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import events, settle
from chasqui_engine._redis.commands.group import Delivery, GroupMember
from chasqui_engine._redis.commands.settle import Dead, Done, Failed
from chasqui_engine.clock import monotonic
from chasqui_engine.config import ConsumerConfig
from chasqui_engine.consumer.batcher import Batcher
from chasqui_engine.consumer.buffer import PrefetchBuffer
from chasqui_engine.consumer.in_flight import InFlight
from chasqui_engine.consumer.progress import Progress, ProgressBatcher
from chasqui_engine.errors import ChasquiError
from chasqui_engine.metrics.events import DlqRouted, RetryScheduled
from chasqui_engine.metrics.safe_sink import SafeSink

_log = logging.getLogger("chasqui")

_MOVED, _NOT_OURS = 1, 0
_NO_ID_LEFT = -2
_FULL_PAUSE_S = 1.0
_SAY_AGAIN_S = 60.0
_ACTIVE_BATCH = 256

Ending = TypeVar("Ending", Failed, Dead)


class Settler:
    """The ways in which a held entry ends."""

    def __init__(
        self,
        link: Link,
        who: GroupMember,
        config: ConsumerConfig,
        in_flight: InFlight,
        buffer: PrefetchBuffer,
        sink: SafeSink,
    ) -> None:
        self._link = link
        self._who = who
        self._config = config
        self._in_flight = in_flight
        self._buffer = buffer
        self._sink = sink
        self._events_max = config.events_max_stream_len if config.events_enabled else 0
        self._refused_said_at = -_SAY_AGAIN_S
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets an exception when an ending cannot be written, for a reason that waiting does not mend."""
        fail, idle_s = self._fail, config.ack_idle_ms / 1000
        self._started: Batcher[tuple[str, str, int]] = Batcher(self._tell_started, fail, most=_ACTIVE_BATCH)
        self._progress = ProgressBatcher(self._tell_progress, fail, most=_ACTIVE_BATCH)
        self._acks: Batcher[Done] = Batcher(self._ack, fail, most=config.ack_batch, idle_s=idle_s)
        self.ack = self._acks.add
        """Takes a job that ran well; one call less on the hottest path."""
        self._retries: Batcher[Failed] = Batcher(self._retry, fail, most=config.retry_inflight, idle_s=idle_s)
        self._burials: Batcher[Dead] = Batcher(self._bury, fail, most=config.dlq_inflight, idle_s=idle_s)

    def started(self, job_id: str, name: str, attempt: int) -> None:
        """A handler is about to run."""
        if self._events_max:
            self._started.add((job_id, name, attempt))

    def progress(self, job_id: str, name: str, progress: str) -> None:
        """A handler, in whatever thread, says how far it is."""
        if self._events_max:
            self._progress.add((job_id, name, progress))

    def retry(self, failed: Failed) -> None:
        """It is to run again."""
        self._retries.add(failed)

    def bury(self, dead: Dead) -> None:
        """It is dead."""
        self._burials.add(dead)

    def forget(self, delivery: Delivery) -> None:
        """It is another's, or gone."""
        self._in_flight.release(delivery)
        self._buffer.nudge()

    async def flush(self) -> None:
        """Waits until what has ended so far is written."""
        await asyncio.gather(self._acks.flush(), self._retries.flush(), self._burials.flush())

    async def drain(self) -> None:
        """Waits until every ending so far is written."""
        told = self._started.drain(), self._progress.drain()
        await asyncio.gather(*told, self._acks.drain(), self._retries.drain(), self._burials.drain())

    def _fail(self, error: BaseException) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _after_started(self) -> None:
        """Lets the `active` of a job, and its progress, leave before its end does."""
        if self._events_max:
            self._started.start()
            # Whoever tells progress tells it seldom: waited for, it cannot be overtaken.
            await self._progress.flush()
            await asyncio.sleep(0)

    async def _tell_started(self, jobs: list[tuple[str, str, int]]) -> None:
        try:
            await events.emit_active(self._link, self._who.keys, jobs, events_max=self._events_max)
        except ChasquiError as err:
            _log.info("%d 'active' events of %s were not told: %s", len(jobs), self._who.keys.queue, err)

    async def _tell_progress(self, jobs: list[Progress]) -> None:
        await self._started.flush()
        try:
            await events.emit_progress(self._link, self._who.keys, jobs, events_max=self._events_max)
        except ChasquiError as err:
            _log.info("%d 'progress' events of %s were not told: %s", len(jobs), self._who.keys.queue, err)

    async def _ack(self, done: list[Done]) -> None:
        await self._after_started()
        ttl_s = self._config.result_ttl_secs if self._config.store_results else 0
        lost = await settle.ack(self._link, self._who, done, events_max=self._events_max, result_ttl_s=ttl_s)
        if lost:
            gone = set(lost)
            self._say_lost([one.job_id for one in done if one.delivery.entry_id in gone])
        for one in done:
            self._in_flight.release(one.delivery)
        self._buffer.nudge()

    async def _retry(self, failed: list[Failed]) -> None:
        await self._after_started()
        while failed:
            replies = await settle.retry(self._link, self._who, failed, events_max=self._events_max)
            for one in self._settled(failed, replies):
                self._sink.retry_scheduled(
                    RetryScheduled(attempt=one.attempt + 1, backoff_ms=one.backoff_ms, name=one.delivery.name)
                )
            failed = await self._still_to_do(failed, replies)

    async def _bury(self, dead: list[Dead]) -> None:
        await self._after_started()
        config = self._config
        while dead:
            replies = await settle.bury(
                self._link,
                self._who,
                dead,
                events_max=self._events_max,
                dlq_max=config.dlq_max_stream_len,
                failure_ttl_s=config.result_ttl_secs,
            )
            for one in self._settled(dead, replies):
                self._sink.dlq_routed(DlqRouted(reason=one.reason, attempt=one.attempt, name=one.delivery.name))
            dead = await self._still_to_do(dead, replies)

    def _settled(self, endings: Sequence[Ending], replies: Sequence[int]) -> list[Ending]:
        """Releases what has ended; returns what ended by us."""
        ours = []
        for one, reply in zip(endings, replies, strict=True):
            if reply == _MOVED:
                ours.append(one)
            elif reply == _NOT_OURS:
                self._say_lost([one.job_id or "?"])
            if reply in (_MOVED, _NOT_OURS):
                self.forget(one.delivery)
        return ours

    async def _still_to_do(self, endings: Sequence[Ending], replies: Sequence[int]) -> list[Ending]:
        left = [one for one, reply in zip(endings, replies, strict=True) if reply not in (_MOVED, _NOT_OURS)]
        if left:
            self._say_refused(len(left), _NO_ID_LEFT in replies)
            await asyncio.sleep(_FULL_PAUSE_S)
        return left

    def _say_refused(self, count: int, no_id_left: bool) -> None:
        if monotonic() - self._refused_said_at < _SAY_AGAIN_S:
            return
        self._refused_said_at = monotonic()
        queue = self._who.keys.queue
        if no_id_left:
            _log.warning(
                "queue %s: the dead letters have used their last id and take no more; %d jobs wait to be buried. "
                "chasqui doctor says what to do",
                queue,
                count,
            )
        else:
            _log.warning("queue %s: the server is full; %d jobs wait to be moved", queue, count)

    def _say_lost(self, job_ids: list[str]) -> None:
        _log.warning(
            "%s no longer had jobs %s when their end was to be written: it was written before and the answer was lost, "
            "another worker claimed them, or they were removed. Nothing was changed",
            self._who.consumer,
            ", ".join(map(repr, job_ids[:10])),
        )
