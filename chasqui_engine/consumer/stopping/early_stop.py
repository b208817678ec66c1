"""A stop signal that a consumer may give itself."""

from __future__ import annotations

import asyncio

from chasqui_engine.runtime.aio import Stop, cancel_and_wait


class EarlyStop:
    """Set by the consumer itself, or when the signal that it was given is set."""

    def __init__(self, outer: Stop) -> None:
        self._outer = outer
        self._own = asyncio.Event()

    def set(self) -> None:
        """Gives it, in the consumer's event loop."""
        self._own.set()

    def is_set(self) -> bool:
        """Whether it was set, from any thread."""
        return self._own.is_set() or self._outer.is_set()

    async def wait(self) -> None:
        """Waits until it is set."""
        either = [asyncio.ensure_future(self._own.wait()), asyncio.ensure_future(self._outer.wait())]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(*either)
