"""The worker's side of `@task.chasqui`: functions by name. Needs no Airflow.

    functions = TaskFunctions()

    @functions.register
    def add(a, b):
        return a + b

    Worker("tasks", functions.handler, store_results=True)

Only what is registered can run: a job names a function and brings its arguments as plain data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chasqui_engine import Handler, HandlerRegistry, Job, UnrecoverableError
from chasqui_engine.worker import is_async

Function = Callable[..., Any]

CALL_FIELDS = frozenset({"args", "kwargs"})


def function_name(function: Any) -> str:
    """The name under which a function is called: its own, or that of the function that `@task.chasqui` wraps."""
    name = getattr(getattr(function, "function", function), "__name__", "")
    if not name:
        raise ValueError(f"{function!r} has no name: pass one")
    return str(name)


class TaskFunctions:
    """The functions that a worker runs for `@task.chasqui`: a `HandlerRegistry` of calls."""

    def __init__(self) -> None:
        self._registry = HandlerRegistry()

    def register(self, function: Any = None, *, name: str | None = None) -> Any:
        """Adds a function; as a decorator too, with or without a name of its own.

        Also accepts a function decorated with `@task.chasqui`, and runs the original.
        """
        if function is None:
            return lambda given: self.register(given, name=name)
        inner = getattr(function, "function", function)
        self._registry.handler(name or function_name(function))(_AsyncCall(inner) if is_async(inner) else _Call(inner))
        return function

    @property
    def names(self) -> list[str]:
        """The names of the registered functions."""
        return self._registry.names

    @property
    def handler(self) -> Handler:
        """The handlers of the functions registered so far, by job name, for a worker."""
        return self._registry.dispatcher()


class _Call:
    """A plain function, as a handler."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def __call__(self, job: Job) -> Any:
        args, kwargs = _arguments_of(job)
        return self._function(*args, **kwargs)


class _AsyncCall(_Call):
    """An `async` function, as a handler."""

    async def __call__(self, job: Job) -> Any:
        args, kwargs = _arguments_of(job)
        return await self._function(*args, **kwargs)


def _arguments_of(job: Job) -> tuple[list[Any], dict[str, Any]]:
    call = job.payload
    if not isinstance(call, dict) or call.keys() != CALL_FIELDS:
        raise UnrecoverableError("the payload of a call must be a mapping of 'args' and 'kwargs' only")
    return call["args"], call["kwargs"]
