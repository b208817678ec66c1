"""The worker tasks: take an entry, make it a job, run the handler, pass the verdict on."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import Any

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import group
from chasqui_engine._redis.commands.group import Delivery, GroupMember
from chasqui_engine._redis.commands.settle import Dead, Done, Failed
from chasqui_engine.clock import monotonic
from chasqui_engine.codec import (
    decode_id,
    decode_job,
    encode_delayed,
    encode_failure,
    encode_payload,
    with_attempt,
)
from chasqui_engine.config import ConsumerConfig
from chasqui_engine.consumer.buffer import PrefetchBuffer
from chasqui_engine.consumer.execution.fork_guard import end_if_forked
from chasqui_engine.consumer.execution.handler import HandlerPanicError, Run
from chasqui_engine.consumer.in_flight import InFlight
from chasqui_engine.consumer.settlement import Settler
from chasqui_engine.consumer.verdict import (
    MAX_DETAIL_CHARS,
    MAX_ERROR_CHARS,
    Bury,
    allowed_runs,
    brief,
    judge_failure,
    must_be_counted,
    runs_begun,
)
from chasqui_engine.errors import DecodeError, EncodeError
from chasqui_engine.job import DlqReason, Job
from chasqui_engine.metrics.events import JobOutcome, JobOutcomeKind
from chasqui_engine.metrics.safe_sink import SafeSink
from chasqui_engine.validation import MAX_JOB_NAME_BYTES

_log = logging.getLogger("chasqui")

_NO_MEMORY_S = 1.0
"""What a worker short of memory waits before it reads on: jobs that run beside it may end and free some."""

_SMOOTHING = 0.05


class JobRunner:
    """A fixed set of tasks over one buffer. What they share is here; a task's own state is its call stack."""

    def __init__(
        self,
        run: Run,
        link: Link,
        who: GroupMember,
        config: ConsumerConfig,
        in_flight: InFlight,
        buffer: PrefetchBuffer,
        settler: Settler,
        sink: SafeSink,
    ) -> None:
        self._run = run
        self._link = link
        self._who = who
        self._config = config
        self._in_flight = in_flight
        self._buffer = buffer
        self._settler = settler
        self._sink = sink
        self._tell_progress = settler.progress
        self._pid = os.getpid()
        self.mean_duration_s = 0.1
        """How long handlers take of late; starts with a guess that keeps the buffer small."""
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
        try:
            job = self._open(delivery)
        except MemoryError:
            _log.warning("entry %s cannot be read for want of memory; it goes back to the stream", delivery.entry_id)
            await self._give_back_uncounted(delivery)
            await asyncio.sleep(_NO_MEMORY_S)
            return
        if job is None:
            return
        if must_be_counted(job, delivery.deliveries, self._allowed_runs(job)):
            delivery.counted = True
            if await group.set_delivery_counts(self._link, self._who, [(delivery.entry_id, delivery.count)]):
                self._settler.forget(delivery)
                return
            if self._buffer.stopped:
                await self._give_back_uncounted(delivery)
                return
        await self._handle(delivery, job)

    async def _give_back_uncounted(self, delivery: Delivery) -> None:
        """The run does not begin, and nobody counts it."""
        await group.release(self._link, self._who, [delivery.entry_id])
        self._settler.forget(delivery)

    async def _run_quarantined(self, delivery: Delivery) -> None:
        """Runs what may take this process along: its end is written before the next one begins."""
        try:
            await self._work(delivery)
            await self._settler.flush()
        finally:
            self._buffer.quarantine_done()

    async def _still_ours(self, delivery: Delivery) -> bool:
        """Asks Redis, because nothing has confirmed it for long; another's entry is let go."""
        asked_at = float("-inf")
        while not delivery.lost and asked_at < delivery.held_at:
            # One question answers for everything that was held when it was asked.
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            asked_at = await asyncio.shield(self._asking)
        if self._buffer.stopped and not delivery.lost:
            await group.release(self._link, self._who, [delivery.entry_id])
            delivery.lost = True
        if delivery.lost:
            self._settler.forget(delivery)
        return not delivery.lost

    async def _ask(self) -> float:
        asked_at = monotonic()
        self._in_flight.note_heartbeat(
            asked_at, await group.heartbeat(self._link, self._who, self._in_flight.entry_ids())
        )
        return asked_at

    def _open(self, delivery: Delivery) -> Job | None:
        """The job in an entry; None when it is one for the dead letters."""
        envelope = delivery.envelope
        if envelope is None:
            self._reject(delivery, DlqReason.malformed("the entry has no field 'd'"))
            return None
        size, limit = len(envelope) + len(delivery.name), self._config.max_payload_bytes
        if size > limit:
            self._reject(delivery, DlqReason.oversize_payload(f"{size} bytes, at most {limit} are accepted"))
            return None
        try:
            job = decode_job(envelope, delivery.name)
        except DecodeError as err:
            self._reject(delivery, DlqReason.decode_failed(str(err.args[0])))
            return None
        allowed = self._allowed_runs(job)
        begun = runs_begun(job, delivery.deliveries, allowed)
        if begun >= allowed:
            silent = "; the last worker went silent before it was done" if delivery.deliveries else ""
            detail = f"no run left after {begun}{silent}"
            self._reject(delivery, DlqReason.retries_exhausted(detail), job.id, begun)
            return None
        job.deliveries = begun - job.attempt
        return job

    def _allowed_runs(self, job: Job) -> int:
        return self._config.max_attempts if self._config.relay else allowed_runs(job, self._config.max_attempts)

    def _reject(self, delivery: Delivery, reason: DlqReason, job_id: str | None = None, attempt: int = 0) -> None:
        """Buries an entry that no handler ran for."""
        job_id = job_id or decode_id(delivery.envelope or b"")
        # What is written about it, several times over, is not to be as large as it may be.
        delivery.name = delivery.name[:MAX_JOB_NAME_BYTES]
        # It may quote the entry, which may be as long as anything.
        detail = (reason.detail or "")[:MAX_DETAIL_CHARS]
        failure = encode_failure(reason.as_str(), detail, attempt)
        self._settler.bury(
            Dead(delivery, reason.as_str(), detail, job_id, attempt, detail[:MAX_ERROR_CHARS], None, failure)
        )

    async def _handle(self, delivery: Delivery, job: Job) -> None:
        attempt = job.attempt + job.deliveries + 1
        self._settler.started(job.id, delivery.name, attempt)
        job._tell = self._tell_progress
        started = monotonic()
        try:
            value = await self._run(job)
            end_if_forked(self._pid)
            result = self._encoded(value) if self._config.store_results else None
        except BaseException as error:  # SystemExit and its like are the handler's, not ours
            end_if_forked(self._pid)
            if self._is_being_stopped(error):
                raise
            self._fail(delivery, job, attempt, error, self._took_us(started))
        else:
            duration_us = self._took_us(started)
            if self._sink.enabled:
                self._tell(JobOutcomeKind.OK, attempt, duration_us, delivery.name)
            self._settler.ack(Done(delivery, job.id, attempt, duration_us, result))

    def _encoded(self, value: Any) -> bytes:
        result, limit = encode_payload(value), self._config.max_result_bytes
        if len(result) > limit:
            raise EncodeError(f"the result takes {len(result)} bytes, at most {limit} are stored")
        return result

    def _took_us(self, started: float) -> int:
        seconds = monotonic() - started
        self.mean_duration_s += (seconds - self.mean_duration_s) * _SMOOTHING
        return int(seconds * 1_000_000)

    def _fail(self, delivery: Delivery, job: Job, attempt: int, error: BaseException, duration_us: int) -> None:
        panic = isinstance(error, HandlerPanicError) or not isinstance(error, Exception)
        if self._sink.enabled:
            self._tell(JobOutcomeKind.PANIC if panic else JobOutcomeKind.ERR, attempt, duration_us, delivery.name)
        _log.debug("job %r failed in run %d", job.id, attempt, exc_info=error)
        verdict = judge_failure(job, attempt, error, self._allowed_runs(job), self._config.retry)
        said = brief(error)
        if isinstance(verdict, Bury):
            reason, detail = verdict.reason.as_str(), verdict.reason.detail or ""
            failure = encode_failure(reason, detail, attempt)
            self._settler.bury(Dead(delivery, reason, detail, job.id, attempt, said, duration_us, failure))
            return
        envelope = with_attempt(delivery.envelope or b"", attempt)
        member = encode_delayed(delivery.name, envelope)
        self._settler.retry(Failed(delivery, member, verdict.backoff_ms, job.id, attempt, said, duration_us))

    def _is_being_stopped(self, error: BaseException) -> bool:
        """Whether the consumer cancels this task; a handler may raise `CancelledError`, or cancel its own task, too."""
        task = asyncio.current_task()
        if task is None or not isinstance(error, asyncio.CancelledError) or not task.cancelling():
            return False
        if self._buffer.stopped:
            return True
        while task.uncancel():
            pass
        return False

    def _tell(self, kind: JobOutcomeKind, attempt: int, duration_us: int, name: str) -> None:
        self._sink.job_outcome(JobOutcome(kind=kind, attempt=attempt, handler_duration_us=duration_us, name=name))
