"""A signal to stop that shows while the event loop is blocked."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

from chasqui_engine.runtime.aio import StopSignal


async def test_given_from_another_thread() -> None:
    stop = StopSignal()
    threading.Timer(0.05, stop.set).start()
    assert not stop.is_set()
    async with asyncio.timeout(5):
        await stop.wait()
    assert stop.is_set()


async def test_it_shows_while_the_loop_is_blocked() -> None:
    stop = StopSignal()
    before = signal.signal(signal.SIGUSR1, lambda *_: stop.set())
    try:
        signal.raise_signal(signal.SIGUSR1)
        ends = time.monotonic() + 5
        while not stop.is_set() and time.monotonic() < ends:
            time.sleep(0.01)
        assert stop.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


async def test_a_loop_that_is_closed_has_nobody_to_stop() -> None:
    def made_elsewhere() -> StopSignal:
        async def make() -> StopSignal:
            return StopSignal()

        return asyncio.run(make())

    stop = await asyncio.to_thread(made_elsewhere)
    stop.set()
    assert stop.is_set()
