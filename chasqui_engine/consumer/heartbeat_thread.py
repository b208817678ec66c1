"""The thread in which the heartbeats of all workers of a process run."""

from __future__ import annotations

import asyncio
import threading

from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.runtime.posix import at_fork


class _HeartbeatThread:
    """An event loop in its own thread, which exists while a consumer uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def join(self) -> asyncio.AbstractEventLoop:
        """Adds a user; returns the loop of the thread."""
        with self._lock:
            self._users += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="chasqui-heartbeat", daemon=True).start()
            return self._loop

    def leave(self) -> None:
        """Removes a user; the last one ends the thread."""
        with self._lock:
            self._users -= 1
            if not self._users and self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(cancel_and_wait(*asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


_heart = _HeartbeatThread()


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _heart  # noqa: PLW0603 - the process is another one
    _heart = _HeartbeatThread()


at_fork(_forget)


def join() -> asyncio.AbstractEventLoop:
    """Joins the heartbeat loop of this process; call `leave` afterwards."""
    return _heart.join()


def leave() -> None:
    """Gives back what `join` gave."""
    _heart.leave()
