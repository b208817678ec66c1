"""The worker's side of `@task.chasqui`: functions by name. Needs no Airflow.

    functions = TaskFunctions()

    @functions.register
    def add(a, b):
        return a + b

    Worker("tasks", functions.handler, store_results=True)

Only what is registered can run: a job names a function and brings its arguments as plain data.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from chasqui_engine import Job, UnrecoverableError

Function = Callable[..., Any]

CALL_FIELDS = frozenset({"args", "kwargs"})


def function_name(function: Any) -> str:
    """The name under which a function is called: its own, or that of what `@task.chasqui` wraps."""
    name = getattr(getattr(function, "function", function), "__name__", "")
    if not name:
        raise ValueError(f"{function!r} has no name: give one")
    return str(name)


class TaskFunctions:
    """The functions that a worker runs for `@task.chasqui`."""

    def __init__(self) -> None:
        self._functions: dict[str, Function] = {}

    def register(self, function: Any = None, *, name: str | None = None) -> Any:
        """Adds a function; as a decorator too, with or without a name of its own.

        Takes what `@task.chasqui` made of a function as well, and runs what is inside.
        """
        if function is None:
            return lambda given: self.register(given, name=name)
        key = name or function_name(function)
        if key in self._functions:
            raise ValueError(f"{key!r} is registered already")
        self._functions[key] = getattr(function, "function", function)
        return function

    @property
    def names(self) -> list[str]:
        """What can be called."""
        return sorted(self._functions)

    async def handler(self, job: Job) -> Any:
        """Runs the function that a job names: in a thread, and what is to be awaited in the event loop."""
        function = self._functions.get(job.name)
        if function is None:
            raise UnrecoverableError(f"no function {job.name!r} here; registered are {', '.join(self.names) or 'none'}")
        call = job.payload
        if not isinstance(call, dict) or call.keys() != CALL_FIELDS:
            raise UnrecoverableError("the payload is no call: it needs 'args' and 'kwargs'")
        if inspect.iscoroutinefunction(function):
            return await function(*call["args"], **call["kwargs"])
        result = await asyncio.to_thread(function, *call["args"], **call["kwargs"])
        return await result if inspect.isawaitable(result) else result
