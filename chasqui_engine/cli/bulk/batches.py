"""Rows in batches. A pipe is read in a thread, so that a slow one delays neither jobs nor a Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import islice

from chasqui_engine.cli.bulk.rows import BadRowError, Row
from chasqui_engine.cli.bulk.sources import Source

_BATCH = 1000
_AHEAD = 4 * _BATCH
"""Rows that are read ahead of those that are sent."""
_PATIENCE_S = 0.2
"""How long rows wait to be sent in a batch."""


async def batches_of(source: Source) -> AsyncIterator[list[Row | BadRowError]]:
    """All rows, up to a thousand at once."""
    if source.may_wait:
        async for batch in _Beside(source.rows()).batches():
            yield batch
        return
    rows = source.rows()
    while batch := list(islice(rows, _BATCH)):
        yield batch


class _Beside:
    """Reads rows in a thread, which is not joined at the end: a blocking read cannot be cancelled."""

    def __init__(self, rows: Iterator[Row | BadRowError]) -> None:
        self._rows = rows
        self._read: deque[Row | BadRowError] = deque()
        self._room = threading.Semaphore(_AHEAD)
        self._loop = asyncio.get_running_loop()
        self._enough = asyncio.Event()
        self._ended = False
        self._failure: BaseException | None = None

    async def batches(self) -> AsyncIterator[list[Row | BadRowError]]:
        """The rows that were read meanwhile: a full batch at once, fewer after a short wait."""
        threading.Thread(target=self._pull, name="chasqui-bulk-reader", daemon=True).start()
        while not (self._ended and not self._read):
            await self._some()
            batch = [self._read.popleft() for _ in range(min(_BATCH, len(self._read)))]
            if batch:
                self._room.release(len(batch))
                yield batch
        if self._failure is not None:
            raise self._failure

    async def _some(self) -> None:
        if self._ended or len(self._read) >= _BATCH:
            return
        self._enough.clear()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._enough.wait()
        except TimeoutError:
            return

    def _pull(self) -> None:
        try:
            for row in self._rows:
                self._room.acquire()
                self._read.append(row)
                if len(self._read) == _BATCH:
                    self._wake()
        except BaseException as err:  # noqa: BLE001 - raised again by `batches`
            self._failure = err
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        # The loop may be closed already.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._enough.set)
