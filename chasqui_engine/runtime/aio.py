"""Small tools for long-lived tasks."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol


class Stop(Protocol):
    """A signal to stop: an `asyncio.Event`, or a `StopSignal`."""

    def is_set(self) -> bool:
        """Whether it was set."""
        ...

    async def wait(self) -> object:
        """Waits until it is set."""
        ...


class StopSignal:
    """A stop signal that may be set from any thread, and from an operating-system signal handler.

    Unlike an `asyncio.Event`, it shows at once, also while the event loop is blocked.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._given = False

    def set(self) -> None:
        """Gives it."""
        self._given = True
        # A loop that is closed has no task left to stop.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._given

    async def wait(self) -> None:
        """Waits until it is set."""
        await self._event.wait()


async def sleep_until(stop: Stop, seconds: float) -> None:
    """Sleeps, but not past `stop`; zero seconds still lets others run."""
    if seconds <= 0:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


async def cancel_and_wait(*tasks: asyncio.Task[object] | None) -> None:
    """Cancels tasks and waits until they have ended; their errors are ignored here."""
    alive = [task for task in tasks if task is not None]
    for task in alive:
        task.cancel()
    await asyncio.gather(*alive, return_exceptions=True)
