"""Waiting for a condition: what comes soon is seen soon, and what never comes fails its test by name."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

from chasqui_engine.runtime.clock import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S = 25.0
"""For what should come soon: the machine may be busy, and a test that fails should not hang."""


async def until(
    condition: Callable[[], Any], what: str = "", *, timeout_s: float = PATIENCE_S, every_s: float = 0.01
) -> Any:
    """Waits until `condition()`, plain or async, is true; returns what it gave."""
    deadline = monotonic() + timeout_s
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert monotonic() < deadline, f"not within {timeout_s} s: {what or _text_of(condition)}"
        await asyncio.sleep(every_s)


def wait_for(
    condition: Callable[[], Any], what: str = "", *, timeout_s: float = PATIENCE_S, every_s: float = 0.02
) -> Any:
    """The same for blocking code, and a condition that is plain."""
    deadline = monotonic() + timeout_s
    while not (value := condition()):
        assert monotonic() < deadline, f"not within {timeout_s} s: {what or _text_of(condition)}"
        time.sleep(every_s)
    return value


def _text_of(condition: Callable[[], Any]) -> str:
    try:
        return inspect.getsource(condition).strip()
    except (OSError, TypeError):  # a method of a builtin has no source
        return repr(condition)
