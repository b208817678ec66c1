"""Calling a user's handler: in the loop, in a thread or in a process, within its time limit."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from chasqui_engine.consumer.execution.batches import Batches
from chasqui_engine.consumer.execution.processes import ProcessDiedError, Processes
from chasqui_engine.consumer.execution.threads import DaemonThreads
from chasqui_engine.values.config import ConsumerConfig, TimeLimit
from chasqui_engine.values.errors import ConfigError, JobTimeoutError
from chasqui_engine.values.job import Job

Handler = Callable[[Any], Any]
"""A function of a job, or of a list of jobs where batches are asked for: `async def`, or plain."""

_log = logging.getLogger("chasqui.consumer")

RunHandler = Callable[[Job], Awaitable[Any]]


class HandlerPanicError(RuntimeError):
    """The handler ended abnormally: `SystemExit`, a dead process."""


def check_handler(handler: Handler) -> Handler:
    """Validates the handler."""
    if not callable(handler):
        raise ConfigError(f"handler must be a function of a job, got {type(handler).__name__}")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ConfigError("handler is a generator, which calling does not run: use return instead of yield")
    return handler


def is_async(handler: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: an `async` function, or an object that is called as one."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


async def run_in_thread(threads: DaemonThreads, handler: Handler, given: Job | list[Job]) -> Any:
    """Runs a plain handler, which nobody can stop: until it ends, an abort of its job is only shown to it."""
    jobs = given if isinstance(given, list) else [given]
    for job in jobs:
        job._in_thread = True
    try:
        value = await threads.run(handler, given)
    finally:
        for job in jobs:
            job._in_thread = False
    # A plain function may still return a coroutine, as a lambda around an async one does.
    return await value if inspect.isawaitable(value) else value


class Handlers:
    """One handler, ready to be awaited."""

    def __init__(self, handler: Handler, config: ConsumerConfig) -> None:
        self._threads: DaemonThreads | None = None
        self._processes: Processes | None = None
        self._handler = check_handler(handler)
        run = self._choose(config)
        self.run: RunHandler = run
        """Awaits the handler for a job."""
        if config.batch_size is not None:
            self.run = Batches(run, config.batch_size, config.batch_wait_ms).run
        if config.time_limit_secs is not None:
            limited = _limit if self._threads is None else _limit_in_thread
            self.run = limited(self.run, config.time_limit_secs)

    def _choose(self, config: ConsumerConfig) -> Callable[[Any], Awaitable[Any]]:
        handler = self._handler
        if is_async(handler):
            return handler
        if config.run_plain_in == "process":
            self._processes = Processes(handler)
            return self._run_in_process
        self._threads = DaemonThreads()
        return self._run_in_thread

    async def _run_in_thread(self, given: Job | list[Job]) -> Any:
        assert self._threads is not None
        return await run_in_thread(self._threads, self._handler, given)

    async def _run_in_process(self, given: Job | list[Job]) -> Any:
        assert self._processes is not None
        try:
            # The receiver of its reports is bound to this process.
            jobs = [replace(job, _reports=_LogOnly()) for job in (given if isinstance(given, list) else [given])]
            return await self._processes.run(jobs if isinstance(given, list) else jobs[0])
        except ProcessDiedError as err:
            raise HandlerPanicError(str(err)) from err

    def close(self) -> None:
        """Ends idle threads and all processes."""
        if self._threads is not None:
            self._threads.close()
        if self._processes is not None:
            self._processes.close()


class _LogOnly:
    """Receives the reports of a handler that runs in its own process."""

    def progress(self, job_id: str, name: str, progress: str, /) -> None:
        """Only logged."""
        _log.info("job %r (%r) is at %s; no progress event: the handler runs in a process", job_id, name, progress)

    def log(self, job_id: str, name: str, line: str, /) -> None:
        """Only logged."""
        _log.info("job %r (%r): %s", job_id, name, line)


def _limit(run: RunHandler, limit: TimeLimit) -> RunHandler:
    async def run_within_limit(job: Job) -> Any:
        seconds = limit(job) if callable(limit) else limit
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await run(job)
        except TimeoutError as err:
            if timer.expired():
                raise _too_long(seconds) from err
            raise

    return run_within_limit


def _limit_in_thread(run: RunHandler, limit: TimeLimit) -> RunHandler:
    """Waits for a thread past its time limit: it cannot be stopped, and its job may not run again until it ends."""

    async def run_to_its_end(job: Job) -> Any:
        seconds = limit(job) if callable(limit) else limit
        running = asyncio.ensure_future(run(job))
        try:
            if not (await asyncio.wait({running}, timeout=seconds))[0]:
                _log.warning(
                    "job %r has run for %s s, its time limit; a thread cannot be stopped, so it fails when it ends "
                    "(with run_plain_in='process' it would be stopped)",
                    job.id,
                    seconds,
                )
                await asyncio.wait({running})
                raise _too_long(seconds) from (None if running.cancelled() else running.exception())
        finally:
            running.cancel()
        return running.result()

    return run_to_its_end


def _too_long(seconds: float | None) -> JobTimeoutError:
    return JobTimeoutError(f"the handler ran longer than {seconds} s")
