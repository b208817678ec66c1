"""Calling a user's handler: in the loop, in a thread or in a process, within its time limit."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from chasqui_engine.config import ConsumerConfig, TimeLimit
from chasqui_engine.consumer.threads import DaemonThreads
from chasqui_engine.errors import ConfigError, JobTimeoutError
from chasqui_engine.job import Job

_log = logging.getLogger("chasqui")

Handler = Callable[[Job], Any]
"""A function of a job: `async def`, or plain."""

Run = Callable[[Job], Awaitable[Any]]


class HandlerPanicError(RuntimeError):
    """The handler left in a way no function should: `SystemExit`, a dead process."""


def check_handler(handler: Handler) -> Handler:
    """The handler, if it is one."""
    if not callable(handler):
        raise ConfigError(f"handler must be a function of a job, got {type(handler).__name__}")
    return handler


class Handlers:
    """One handler, ready to be awaited."""

    def __init__(self, handler: Handler, config: ConsumerConfig) -> None:
        self._threads: DaemonThreads | None = None
        self._processes: ProcessPoolExecutor | None = None
        self._concurrency = config.concurrency
        self._handler = check_handler(handler)
        self.run: Run = self._choose(config)
        """Awaits the handler for a job."""
        if config.time_limit_secs is not None:
            self.run = _limited(self.run, config.time_limit_secs)

    def _choose(self, config: ConsumerConfig) -> Run:
        handler = self._handler
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
            return handler
        if config.run_plain_in == "process":
            return self._run_in_process
        self._threads = DaemonThreads()
        return self._run_in_thread

    async def _run_in_thread(self, job: Job) -> Any:
        assert self._threads is not None
        value = await self._threads.run(self._handler, job)
        # A plain function may still give back a coroutine, as a lambda around an async one does.
        return await value if inspect.isawaitable(value) else value

    async def _run_in_process(self, job: Job) -> Any:
        pool = self._processes
        if pool is None:
            # A fresh interpreter each: what this process has open is not theirs to touch.
            pool = self._processes = ProcessPoolExecutor(self._concurrency, mp_context=get_context("spawn"))
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, self._handler, job)
        except BrokenProcessPool as err:
            if self._processes is pool:
                self._processes = None
                pool.shutdown(wait=False, cancel_futures=True)
                _log.warning("a handler's process died; starting new ones")
            raise HandlerPanicError("the process that ran the handler died") from err

    def close(self) -> None:
        """Lets idle threads and processes go."""
        if self._threads is not None:
            self._threads.close()
        if self._processes is not None:
            self._processes.shutdown(wait=False, cancel_futures=True)


def _limited(run: Run, limit: TimeLimit) -> Run:
    async def run_within_limit(job: Job) -> Any:
        seconds = limit(job) if callable(limit) else limit
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await run(job)
        except TimeoutError as err:
            if timer.expired():
                raise JobTimeoutError(f"the handler ran longer than {seconds} s") from err
            raise

    return run_within_limit
