"""Handlers by job name: `@handler("send-email")` on each function, and the module's name to `chasqui worker`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from chasqui_engine.consumer import Handler, check_handler
from chasqui_engine.consumer.execution.batches import Batches
from chasqui_engine.consumer.execution.handler import is_async, run_in_thread
from chasqui_engine.consumer.execution.threads import DaemonThreads
from chasqui_engine.values.errors import ConfigError, HandlerError
from chasqui_engine.values.job import Job
from chasqui_engine.values.validation import check_job_name, check_whole_number

H = TypeVar("H", bound=Handler)

_log = logging.getLogger("chasqui.worker")

_MOST_WARNED_OF = 1000
"""At most this many names are warned of: a producer cannot fill the log."""


class _BatchOptions(NamedTuple):
    """How the jobs of a batch handler are collected."""

    size: int
    wait_ms: int


class HandlerRegistry:
    """Which function runs the jobs of which name. `async` and plain functions may stand side by side."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._for_others: Handler | None = None
        self._batches: dict[Handler, _BatchOptions] = {}

    @property
    def names(self) -> list[str]:
        """The job names that have a handler of their own."""
        return sorted(self._handlers)

    def handler(self, *names: str, batch: int | None = None, batch_wait_ms: int = 100) -> Callable[[H], H]:
        """Makes a function the handler of jobs of these names; without a name, of all that have none of their own.

        With `batch` it is given lists of up to so many of these jobs, which wait `batch_wait_ms` for each other.
        """
        if batch is not None:
            check_whole_number(batch, "batch", 1)
        check_whole_number(batch_wait_ms, "batch_wait_ms", 0)
        if any(callable(name) for name in names):
            raise ConfigError('write @handler("name"), or @handler() for every name that has no handler of its own')

        def register(function: H) -> H:
            check_handler(function)
            if not names:
                if self._for_others is not None:
                    raise ConfigError("there already is a handler for all other names")
                self._for_others = function
            for name in names:
                if check_job_name(name) in self._handlers:
                    raise ConfigError(f"there already is a handler for {name!r}")
                self._handlers[name] = function
            if batch is not None:
                self._batches[function] = _BatchOptions(batch, batch_wait_ms)
            return function

        return register

    def dispatcher(self) -> Handler:
        """One handler for a worker, which passes each job to the one registered for its name."""
        functions = [*self._handlers.values(), *([self._for_others] if self._for_others else [])]
        if not functions:
            raise ConfigError('no handler is registered: write @handler("name") on a function of the module')
        if not any(map(is_async, functions)) and not self._batches:
            return _PlainDispatch(dict(self._handlers), self._for_others)
        return _AsyncDispatch(dict(self._handlers), self._for_others, dict(self._batches))


def largest_batch_of(handler: Handler) -> int:
    """The largest batch that a registry's handler collects; 0 if it collects none."""
    if not isinstance(handler, _AsyncDispatch):
        return 0
    return max((one.size for one in handler.batch_options.values()), default=0)


class _Dispatch:
    """Finds the function for a job."""

    def __init__(self, handlers: Mapping[str, Handler], for_others: Handler | None) -> None:
        self._handlers = handlers
        self._for_others = for_others
        self._warned_of: set[str] = set()

    @property
    def job_names(self) -> list[str]:
        """The job names that have a handler; `*` for one that takes all others."""
        return [*sorted(self._handlers), *(["*"] if self._for_others else [])]

    def _choose(self, job: Job) -> Handler:
        found = self._handlers.get(job.name, self._for_others)
        if found is None:
            self._warn_of(job.name)
            # Retried, not buried at once: a worker of a newer release may know the name.
            raise HandlerError(f"no handler for jobs named {job.name!r}; there are {self._known}")
        return found

    @property
    def _known(self) -> str:
        return ", ".join(sorted(self._handlers))

    def _warn_of(self, name: str) -> None:
        if name not in self._warned_of and len(self._warned_of) < _MOST_WARNED_OF:
            self._warned_of.add(name)
            _log.warning(
                "no handler for jobs named %r, there are %s; such jobs are retried, in case another worker has one",
                name,
                self._known,
            )


class _PlainDispatch(_Dispatch):
    """Of plain functions only: the worker decides where they run, in threads or in processes."""

    def __call__(self, job: Job) -> Any:
        return self._choose(job)(job)


class _AsyncDispatch(_Dispatch):
    """Of `async` functions and batches, and of plain ones among them, which run in threads."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        for_others: Handler | None,
        batch_options: Mapping[Handler, _BatchOptions],
    ) -> None:
        super().__init__(handlers, for_others)
        self.batch_options = batch_options
        self._batches: dict[Handler, Batches] = {}
        self._threads: DaemonThreads | None = None

    async def __call__(self, job: Job) -> Any:
        function = self._choose(job)
        if function in self.batch_options:
            return await self._collector_of(function).run(job)
        return await self._call(function, job)

    def _collector_of(self, function: Handler) -> Batches:
        if function not in self._batches:
            self._batches[function] = Batches(partial(self._call, function), *self.batch_options[function])
        return self._batches[function]

    async def _call(self, function: Callable[[Any], Any], given: Job | list[Job]) -> Any:
        if is_async(function):
            return await function(given)
        if self._threads is None:
            self._threads = DaemonThreads()
        return await run_in_thread(self._threads, function, given)


registry = HandlerRegistry()
"""The registry that `handler` fills, and `chasqui worker` uses."""

handler = registry.handler
"""Says which jobs a function is for: `@handler("send-email")`, `@handler("resize", "crop")`, or `@handler()` for every
name that has no function of its own. `chasqui worker MODULE` runs them; see `HandlerRegistry`."""
