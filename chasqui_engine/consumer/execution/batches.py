"""Batch handlers: jobs that run at the same time share one call of the handler, which is given a list of them.

Only the call is shared. For every other stage each of them is a job like any other: it has its own lease, ack, result,
retry and time limit, so nothing there knows of batches, and single jobs pay nothing for them.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from chasqui_engine.consumer.execution.fork_guard import end_if_forked
from chasqui_engine.consumer.in_flight import POISON_SUSPECT
from chasqui_engine.values.batch_error import BatchError
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import Job

RunBatch = Callable[[list[Job]], Awaitable[Any]]

_log = logging.getLogger("chasqui.consumer")


class _Outcome(NamedTuple):
    """What a job's run returns, or raises. A future cannot carry every exception."""

    value: Any
    error: BaseException | None


class _Batch:
    """Jobs that wait for one call, or are in it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Job, asyncio.Future[_Outcome]]] = []
        self.timer: asyncio.TimerHandle | None = None
        self.call: asyncio.Task[None] | None = None

    def add(self, job: Job) -> asyncio.Future[_Outcome]:
        """Adds a job; returns what it waits for."""
        outcome: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()
        self.waiting.append((job, outcome))
        return outcome

    def remove(self, outcome: asyncio.Future[_Outcome]) -> None:
        """Removes a job that was stopped; a call goes on for the others, and is cancelled when none is left."""
        if self.call is None:
            self.waiting = [one for one in self.waiting if one[1] is not outcome]
        elif all(one.done() for _, one in self.waiting):
            self.call.cancel()


class Batches:
    """Collects jobs, and calls the handler when `size` of them are there or the first has waited for `wait_ms`."""

    def __init__(self, run: RunBatch, size: int, wait_ms: int) -> None:
        self._run = run
        self._size = size
        self._wait_s = wait_ms / 1000
        self._open = _Batch()
        self._pid = os.getpid()
        self._warned = False
        # A call belongs to no single job, so neither do its context variables.
        self._context = contextvars.copy_context()

    async def run(self, job: Job) -> Any:
        """Returns or raises what the shared call says of this job."""
        # What may have killed its worker takes no other jobs with it.
        batch = _Batch() if job.deliveries >= POISON_SUSPECT else self._open
        outcome = batch.add(job)
        if batch is not self._open or len(batch.waiting) >= self._size:
            self._start(batch)
        elif batch.timer is None:
            batch.timer = asyncio.get_running_loop().call_later(self._wait_s, self._start, batch)
        try:
            value, error = await outcome
        except asyncio.CancelledError:
            batch.remove(outcome)
            raise
        if error is not None:
            raise error
        return value

    def _start(self, batch: _Batch) -> None:
        if batch is self._open:
            self._open = _Batch()
        if batch.timer is not None:
            batch.timer.cancel()
        if batch.waiting:
            calling = self._call(batch)
            batch.call = asyncio.get_running_loop().create_task(calling, context=self._context.copy())

    async def _call(self, batch: _Batch) -> None:
        jobs = [job for job, _ in batch.waiting]
        for job in jobs:
            # As in a thread: an abort of one would not stop the call, nor what it does for that one.
            job._in_thread = len(jobs) > 1
        try:
            value = await self._run(jobs)
            end_if_forked(self._pid)
            outcomes = [_Outcome(one, None) for one in self._share(value, jobs)]
        except BatchError as error:
            end_if_forked(self._pid)
            outcomes = _share_errors(error, jobs)
        except BaseException as error:  # noqa: BLE001 - every error belongs to the jobs
            end_if_forked(self._pid)
            outcomes = [_Outcome(None, error)] * len(jobs)
        for (_, waiting), outcome in zip(batch.waiting, outcomes, strict=True):
            if not waiting.done():
                waiting.set_result(outcome)

    def _share(self, value: Any, jobs: list[Job]) -> Sequence[Any]:
        """The results of the jobs. What the handler did is done: an odd value fails no job."""
        if isinstance(value, list | tuple) and len(value) == len(jobs):
            return value
        if value is not None and not self._warned:
            self._warned = True
            size = f" of {len(value)}" if isinstance(value, list | tuple) else ""
            _log.warning(
                "a batch handler returned a %s%s for %d jobs, not a list with one result for each: "
                "they complete without results",
                type(value).__name__,
                size,
                len(jobs),
            )
        return [None] * len(jobs)


def _share_errors(error: BatchError, jobs: list[Job]) -> list[_Outcome]:
    unknown = error.errors.keys() - {job.id for job in jobs}
    if unknown:
        # A job that failed must not pass for one that went well.
        wrong = ConfigError(f"BatchError names {sorted(map(repr, unknown))[0]}, the id of no job of the batch: {error}")
        return [_Outcome(None, wrong)] * len(jobs)
    return [_Outcome(error.results.get(job.id), error.errors.get(job.id)) for job in jobs]
