"""The worker tasks: take an entry, decode the job, run the handler, pass on the verdict."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine._redis.commands.settle import Ack, Bury, Drop
from chasqui_engine.codec.envelope import encode_payload
from chasqui_engine.codec.headers import decode_headers
from chasqui_engine.consumer.context import ConsumerContext
from chasqui_engine.consumer.execution.fork_guard import end_if_forked
from chasqui_engine.consumer.execution.handler import HandlerPanicError, RunHandler
from chasqui_engine.consumer.failure_log import log_burial, log_retry
from chasqui_engine.consumer.job_logging import running_job_id
from chasqui_engine.consumer.settlement import Settler
from chasqui_engine.consumer.verdict import (
    abort_unbegun,
    allowed_runs,
    drop,
    expire,
    judge_arrival,
    judge_failure,
    must_be_counted,
)
from chasqui_engine.metrics.events import JobOutcome, JobOutcomeKind
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.errors import DecodeError, EncodeError, JobAbortedError
from chasqui_engine.values.job import ABORT_TOLD, Job
from chasqui_engine.values.retry_later import RetryLater

_log = logging.getLogger("chasqui.consumer")

_NO_MEMORY_S = 1.0
"""How long a worker without memory waits before it continues: running jobs may end and free some."""


class JobRunner:
    """A fixed set of tasks over one buffer. What they share is here; a task's own state is its call stack."""

    def __init__(self, context: ConsumerContext, run: RunHandler, settler: Settler) -> None:
        self._run = run
        self._queue = context.queue
        self._link = context.link
        self._member = context.member
        self._config = context.config
        self._in_flight = context.in_flight
        self._buffer = context.buffer
        self._sink = context.sink
        self._pace = context.pace
        self._job_events = context.job_events
        self._listeners = context.job_events.listeners
        self._settler = settler
        self._server_now_ms = context.clock.server_now_ms
        self._pid = os.getpid()
        self._asking: asyncio.Task[float] | None = None

    async def work(self) -> None:
        """One task: until the buffer is closed."""
        buffer, in_flight = self._buffer, self._in_flight
        while True:
            delivery = buffer.take()
            if delivery is None:
                if not await buffer.wait():
                    return
                continue
            if delivery.quarantined:
                await self._run_quarantined(delivery)
                continue
            if (delivery.lost or not in_flight.lease_is_fresh(delivery, monotonic())) and not await self._still_ours(
                delivery
            ):
                continue
            await self._work(delivery)

    async def _work(self, delivery: Delivery) -> None:
        if delivery.aborting and self._drop_unbegun(delivery):
            return
        try:
            job = self._open(delivery)
        except MemoryError:
            _log.warning("entry %s cannot be decoded: out of memory; it is released to the stream", delivery.entry_id)
            await self._give_back_uncounted(delivery)
            await asyncio.sleep(_NO_MEMORY_S)
            return
        if job is None:
            return
        if must_be_counted(job, delivery.deliveries, allowed_runs(job, self._config)):
            delivery.counted = True
            if await group.set_delivery_counts(self._link, self._member, [(delivery.entry_id, delivery.count)]):
                self._settler.forget(delivery)
                return
            if self._buffer.stopped:
                await self._give_back_uncounted(delivery)
                return
            if delivery.aborting and self._drop_unbegun(delivery):
                return
        await self._handle(delivery, job)

    def _drop_unbegun(self, delivery: Delivery) -> bool:
        """Ends a job that is to be aborted; False if it is unreadable."""
        verdict = abort_unbegun(delivery, self._config)
        if verdict is not None:
            self._settler.drop(verdict)
        return verdict is not None

    async def _give_back_uncounted(self, delivery: Delivery) -> None:
        """Releases an entry whose run does not start and is not counted."""
        await group.release(self._link, self._member, [delivery.entry_id])
        self._settler.forget(delivery)

    async def _run_quarantined(self, delivery: Delivery) -> None:
        """Runs a quarantined entry, which may kill this process: it is settled before the next one starts."""
        try:
            await self._work(delivery)
            await self._settler.flush()
        finally:
            self._buffer.quarantine_done()

    async def _still_ours(self, delivery: Delivery) -> bool:
        """Renews the lease in Redis, because it is no longer fresh; entries of other workers are dropped."""
        asked_at = float("-inf")
        while not delivery.lost and asked_at < delivery.held_at:
            # One answer covers everything in flight at the time of the question.
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            asked_at = await asyncio.shield(self._asking)
        if self._buffer.stopped and not delivery.lost:
            await group.release(self._link, self._member, [delivery.entry_id])
            delivery.lost = True
        if delivery.lost:
            self._settler.forget(delivery)
        return not delivery.lost

    async def _ask(self) -> float:
        asked_at = monotonic()
        self._in_flight.note_heartbeat(
            asked_at, await group.heartbeat(self._link, self._member, self._in_flight.entry_ids())
        )
        return asked_at

    def _open(self, delivery: Delivery) -> Job | None:
        """The job in an entry; None if it may not run, and is settled."""
        verdict = judge_arrival(delivery, self._config, self._server_now_ms)
        if delivery.headers and isinstance(verdict, Job):
            verdict = self._read_headers(delivery, verdict)
        if isinstance(verdict, Bury):
            log_burial(self._queue, verdict)
            self._settler.bury(verdict)
        elif isinstance(verdict, Drop):
            self._settler.drop(verdict)
        else:
            if delivery.priority:
                verdict.priority = delivery.priority
            return verdict
        return None

    def _read_headers(self, delivery: Delivery, job: Job) -> Job | Bury | Drop:
        """The job with its headers, or its end if it had not begun in its own time."""
        try:
            own, added_at_ms, expires_ms = decode_headers(delivery.headers)
        except DecodeError as err:
            _log.warning("queue %s: job %r runs without its headers: %s", self._queue, job.id, err.args[0])
            return job
        if added_at_ms not in (None, job.created_at_ms):
            delivery.headers = b""
            return job
        job.headers = own
        has_begun = job.attempt + job.deliveries > 0
        if expires_ms is not None and not has_begun and self._server_now_ms() >= expires_ms:
            return expire(delivery, job, self._config)
        return job

    async def _handle(self, delivery: Delivery, job: Job) -> None:
        attempt = job.attempt + job.deliveries + 1
        self._settler.note_start(job.id, attempt, delivery)
        job._reports = self._settler
        if self._listeners.hear_jobs:
            self._job_events.begin(job, self._settler)
        if self._config.log_job_ids:
            running_job_id.set(job.id)
        delivery.run = asyncio.current_task(), job
        started = monotonic()
        try:
            value = await self._run(job)
            end_if_forked(self._pid)
            result = self._encode(value) if self._config.store_results else None
        except BaseException as error:  # SystemExit and the like belong to the handler
            end_if_forked(self._pid)
            delivery.run = None
            if job._abort:
                self._abort(delivery, job, attempt, self._took_us(started))
                return
            if self._is_being_stopped(error):
                raise
            self._fail(delivery, job, attempt, error, self._took_us(started))
        else:
            delivery.run = None
            duration_us = self._took_us(started)
            if job._abort == ABORT_TOLD:
                self._abort(delivery, job, attempt, duration_us)
                return
            if self._sink.enabled:
                self._report(JobOutcomeKind.OK, attempt, duration_us, delivery.name)
            if self._listeners.hear_jobs:
                self._job_events.complete(delivery, job, value)
            self._settler.ack(Ack(delivery, job.id, attempt, duration_us, result))

    def _abort(self, delivery: Delivery, job: Job, attempt: int, duration_us: int) -> None:
        """Ends a job whose handler knows of the request, or has failed."""
        self._take_back_cancellation()
        if self._listeners.hear_jobs:
            self._job_events.fail(delivery, job, JobAbortedError(job.id, "aborted", None, attempt))
        self._settler.drop(drop(delivery, "aborted", job.id, attempt, duration_us))

    def _encode(self, value: Any) -> bytes:
        result, limit = encode_payload(value), self._config.max_result_bytes
        if len(result) > limit:
            raise EncodeError(f"the result takes {len(result)} bytes, at most {limit} are stored")
        return result

    def _took_us(self, started: float) -> int:
        seconds = monotonic() - started
        self._pace.note(seconds)
        return int(seconds * 1_000_000)

    def _fail(self, delivery: Delivery, job: Job, attempt: int, error: BaseException, duration_us: int) -> None:
        panic = isinstance(error, HandlerPanicError) or not isinstance(error, Exception)
        if self._sink.enabled and not isinstance(error, RetryLater):
            self._report(JobOutcomeKind.PANIC if panic else JobOutcomeKind.ERR, attempt, duration_us, delivery.name)
        if self._listeners.hear_jobs and not isinstance(error, RetryLater):
            self._job_events.fail(delivery, job, error)
        verdict = judge_failure(delivery, job, attempt, error, duration_us, self._config)
        if isinstance(verdict, Bury):
            log_burial(self._queue, verdict, error)
            self._settler.bury(verdict)
        else:
            log_retry(self._queue, verdict, allowed_runs(job, self._config), error)
            self._settler.retry(verdict)
        # A handler may raise the same object each time: its traceback would grow with every run.
        error.__traceback__ = None

    def _is_being_stopped(self, error: BaseException) -> bool:
        """Whether the consumer cancels this task; handlers may also raise `CancelledError` or cancel their own task."""
        task = asyncio.current_task()
        if task is None or not isinstance(error, asyncio.CancelledError) or not task.cancelling():
            return False
        if self._buffer.stopped:
            return True
        self._take_back_cancellation()
        return False

    def _take_back_cancellation(self) -> None:
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()

    def _report(self, kind: JobOutcomeKind, attempt: int, duration_us: int, name: str) -> None:
        self._sink.job_outcome(JobOutcome(kind=kind, attempt=attempt, handler_duration_us=duration_us, name=name))
