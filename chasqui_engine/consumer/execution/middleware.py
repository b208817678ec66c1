"""Middleware: functions around each run of a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from chasqui_engine.consumer.execution.handler import RunHandler, is_async
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.job import Job

Middleware = Callable[[Job, RunHandler], Awaitable[Any]]
"""`async def middleware(job, call_next)`, which returns what `await call_next(job)` returned, or something else."""


def check_middleware(middleware: Sequence[Middleware]) -> tuple[Middleware, ...]:
    """Validates the functions."""
    if not isinstance(middleware, list | tuple):
        raise ConfigError(f"middleware must be a list of async functions, got {type(middleware).__name__}")
    for one in middleware:
        if not callable(one) or not is_async(one):
            raise ConfigError(f"middleware must be `async def middleware(job, call_next)`, got {one!r}")
    return tuple(middleware)


def wrap_in_middleware(run: RunHandler, middleware: Sequence[Middleware]) -> RunHandler:
    """The same run with middleware around it, the first outermost."""
    for one in reversed(middleware):
        run = _wrap(run, one)
    return run


def _wrap(run: RunHandler, middleware: Middleware) -> RunHandler:
    def call(job: Job) -> Awaitable[Any]:
        return middleware(job, run)

    return call
