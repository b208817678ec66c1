"""Reading from a server that may restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from chasqui_engine import RedisError, RefusedError
from chasqui_engine.cli.output.formatting import ago
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.runtime.clock import monotonic

_T = TypeVar("_T")
_SAY_EVERY_S = 1.0
_SILENT_S = 2.0
"""A slower answer is reported."""


async def ride_out(read: Callable[[], Coroutine[Any, Any, _T]], waiting: Callable[[float], None]) -> _T:
    """The return value of `read`, retried while the server cannot be reached.

    While no answer comes, `waiting` is called every second with the seconds so far.
    """
    began = monotonic()
    reading: asyncio.Task[_T] | None = None
    try:
        while True:
            reading = asyncio.create_task(read())
            while not reading.done():
                await asyncio.wait({reading}, timeout=_SAY_EVERY_S)
                if not reading.done() and (seconds := monotonic() - began) > _SILENT_S:
                    waiting(seconds)
            try:
                return reading.result()
            except RefusedError:
                raise  # waiting does not help
            except RedisError:
                await asyncio.sleep(_SAY_EVERY_S)
                waiting(monotonic() - began)
    finally:
        await cancel_and_wait(reading)


def describe_outage(address: str, seconds: float) -> str:
    """The text to show while there is no answer."""
    return f"no answer from {address} for {ago(seconds * 1000)}; retrying"
