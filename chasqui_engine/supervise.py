"""Small tools for tasks that live long."""

from __future__ import annotations

import asyncio


async def sleep_until(stop: asyncio.Event, seconds: float) -> None:
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
    """Cancels tasks and waits until they are gone; what they raise on the way out is for their own logs."""
    alive = [task for task in tasks if task is not None]
    for task in alive:
        task.cancel()
    await asyncio.gather(*alive, return_exceptions=True)
