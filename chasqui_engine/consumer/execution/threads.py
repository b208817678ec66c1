"""Threads for handlers that are plain functions.

Daemon threads, unlike those of `concurrent.futures`: a handler that outlives the shutdown deadline does not keep
the process from ending. Results reach the event loop in batches, since waking the loop is expensive.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from chasqui_engine.consumer.execution.fork_guard import end_if_forked

_Task = tuple[Callable[[], Any], "asyncio.Future[Any]"]
_Outcome = tuple["asyncio.Future[Any]", Any, BaseException | None]


class DaemonThreads:
    """As many threads as concurrent calls; each is reused."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._free = 0
        self._threads = 0
        self._finished: deque[_Outcome] = deque()
        self._waking = False
        self._lock = threading.Lock()
        self._pid = os.getpid()

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Returns or raises like the function, without blocking the loop. After a cancellation the thread continues."""
        context = contextvars.copy_context()
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._free:
            self._free -= 1
        else:
            self._threads += 1
            threading.Thread(target=self._work, name=f"chasqui-handler-{self._threads}", daemon=True).start()
        self._tasks.put((lambda: context.run(function, *args), future))
        value, error = await future
        # Raised here, since a future cannot carry every exception (`StopIteration`, `GeneratorExit`).
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Ends idle threads; busy ones end after their call."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            function, future = task
            try:
                outcome: _Outcome = (future, function(), None)
            except BaseException as err:  # noqa: BLE001 - every error belongs to the task that awaits the future
                outcome = (future, None, err)
            end_if_forked(self._pid)
            self._hand_over(outcome)
            del task, function, future, outcome

    def _hand_over(self, outcome: _Outcome) -> None:
        with self._lock:
            self._finished.append(outcome)
            wake, self._waking = not self._waking, True
        if wake:
            try:
                self._loop.call_soon_threadsafe(self._bring_in)
            except RuntimeError:  # the loop is closed: no task waits any more
                return

    def _bring_in(self) -> None:
        with self._lock:
            finished, self._finished = self._finished, deque()
            self._waking = False
        for future, value, error in finished:
            self._free += 1
            if not future.done():
                future.set_result((value, error))
