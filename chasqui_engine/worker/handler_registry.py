"""Handlers by job name: `@handler("send-email")` on each function, and the module's name to `chasqui worker`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from chasqui_engine.consumer import Handler, check_handler
from chasqui_engine.consumer.execution.handler import is_async, run_in_thread
from chasqui_engine.consumer.execution.threads import DaemonThreads
from chasqui_engine.values.errors import ConfigError, HandlerError
from chasqui_engine.values.job import Job
from chasqui_engine.values.validation import check_job_name

H = TypeVar("H", bound=Handler)

_log = logging.getLogger("chasqui.worker")

_MOST_WARNED_OF = 1000
"""At most this many names are warned of: a producer cannot fill the log."""


class HandlerRegistry:
    """Which function runs the jobs of which name. `async` and plain functions may stand side by side."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._for_others: Handler | None = None

    @property
    def names(self) -> list[str]:
        """The job names that have a handler of their own."""
        return sorted(self._handlers)

    def handler(self, *names: str) -> Callable[[H], H]:
        """Makes a function the handler of jobs of these names; without a name, of all that have none of their own."""
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
            return function

        return register

    def dispatcher(self) -> Handler:
        """One handler for a worker, which passes each job to the one registered for its name."""
        functions = [*self._handlers.values(), *([self._for_others] if self._for_others else [])]
        if not functions:
            raise ConfigError('no handler is registered: write @handler("name") on a function of the module')
        if not any(map(is_async, functions)):
            return _PlainDispatch(dict(self._handlers), self._for_others)
        return _AsyncDispatch(dict(self._handlers), self._for_others)


class _Dispatch:
    """Finds the function for a job."""

    def __init__(self, handlers: Mapping[str, Handler], for_others: Handler | None) -> None:
        self._handlers = handlers
        self._for_others = for_others
        self._warned_of: set[str] = set()

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
    """Of `async` functions, and of plain ones among them, which run in threads."""

    def __init__(self, handlers: Mapping[str, Handler], for_others: Handler | None) -> None:
        super().__init__(handlers, for_others)
        self._threads: DaemonThreads | None = None

    async def __call__(self, job: Job) -> Any:
        function = self._choose(job)
        if is_async(function):
            return await function(job)
        if self._threads is None:
            self._threads = DaemonThreads()
        return await run_in_thread(self._threads, function, job)


registry = HandlerRegistry()
"""The registry that `handler` fills, and `chasqui worker` uses."""

handler = registry.handler
"""Says which jobs a function is for: `@handler("send-email")`, `@handler("resize", "crop")`, or `@handler()` for every
name that has no function of its own. `chasqui worker MODULE` runs them; see `HandlerRegistry`."""
