"""What handlers say of their jobs, on its way to Redis: in order, and never more of it than the server takes."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Coroutine
from itertools import islice

Progress = tuple[str, str, str]
"""A job's id, its name, and how far it is, as JSON; or a line of its log."""


class ProgressBatcher:
    """Sends one batch after the other, so that none can overtake another.

    While `most` wait, a job's newest progress takes the place of the one that it said before: a handler that says it in
    a loop, or a server that is away, must not fill the memory.
    """

    def __init__(
        self,
        send: Callable[[list[Progress]], Coroutine[object, object, None]],
        on_failure: Callable[[BaseException], None],
        *,
        most: int,
        at_once: int | None = None,
    ) -> None:
        self._send = send
        self._on_failure = on_failure
        self._most = most
        self._at_once = at_once or most
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: dict[int, Progress] = {}
        self._newest: dict[str, int] = {}
        """Where in `_waiting` a job's last word is."""
        self._number = 0
        self._woken = False
        self._on_its_way: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way."""
        return not self._waiting and self._on_its_way is None

    def add(self, progress: Progress) -> None:
        """Takes one more, from any thread."""
        job_id = progress[0]
        with self._lock:
            if len(self._waiting) >= self._most and job_id in self._newest:
                self._waiting[self._newest[job_id]] = progress
            else:
                self._number += 1
                self._waiting[self._number] = progress
                self._newest[job_id] = self._number
            woken, self._woken = self._woken, True
        if not woken:
            # A loop that is closed has no task left to wake.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        if self._on_its_way is not None:
            return
        batch = self._take()
        if batch:
            self._on_its_way = asyncio.create_task(self._send(batch))
            self._on_its_way.add_done_callback(self._on_arrival)

    def _take(self) -> list[Progress]:
        with self._lock:
            self._woken = False
            numbers = list(islice(self._waiting, self._at_once))
            batch = [self._waiting.pop(number) for number in numbers]
            for number, (job_id, _name, _progress) in zip(numbers, batch, strict=True):
                if self._newest.get(job_id) == number:
                    del self._newest[job_id]
        return batch

    def _on_arrival(self, task: asyncio.Task[None]) -> None:
        self._on_its_way = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failure(error)
        self._start()

    async def flush(self) -> None:
        """Sends what has gathered so far, and waits until that, and what was on its way, has arrived, or failed to."""
        last = self._number
        while self._waiting or self._on_its_way is not None:
            self._start()
            sent = self._first_waiting() > last
            if self._on_its_way is not None:
                await asyncio.wait((self._on_its_way,))
            if sent:
                return

    def _first_waiting(self) -> float:
        with self._lock:
            return next(iter(self._waiting), math.inf)

    async def drain(self) -> None:
        """Sends everything and waits until it has arrived, or failed to."""
        while self._waiting or self._on_its_way is not None:
            await self.flush()
