"""Reports of handlers on their way to Redis: in order, and with bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Coroutine
from itertools import islice

Progress = tuple[str, str, str]
"""A job's id, its name, and its progress as JSON; or a line of its log."""


class ProgressBatcher:
    """Sends one batch after the other, so that none overtakes another.

    While `most` wait, a job's newest progress replaces its earlier one: a handler that reports it in
    a loop, or an unreachable server, does not fill the memory.
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
        """The index in `_waiting` of a job's last report."""
        self._number = 0
        self._woken = False
        self._on_its_way: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is waiting or in flight."""
        return not self._waiting and self._on_its_way is None

    def add(self, progress: Progress) -> None:
        """Adds a report, from any thread."""
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
        """Sends the collected items, and waits until these and those in flight have arrived or failed."""
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
        """Sends everything and waits until it has arrived or failed."""
        while self._waiting or self._on_its_way is not None:
            await self.flush()
