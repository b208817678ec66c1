"""How a queue stands, in the words of a worker's line."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Self

from chasqui_engine.errors import ChasquiError

if TYPE_CHECKING:
    from chasqui_engine.producer import Producer


class QueueStatus:
    """Looks at a queue again and again; a server that is away leaves the words of before."""

    def __init__(self, url: str | None, queue: str, group: str) -> None:
        self._url = url
        self._queue = queue
        self._group = group
        self._producer: Producer | None = None
        self._words = "connecting"

    async def words(self) -> str:
        """What waits, runs and is delayed."""
        # Without a terminal none of this is needed, and a worker starts sooner without it.
        from chasqui_engine.config import ProducerConfig
        from chasqui_engine.producer import Producer

        # The line is never worth ending a worker for.
        with contextlib.suppress(ChasquiError):
            if self._producer is None:
                self._producer = await Producer.connect(self._url, ProducerConfig(queue_name=self._queue))
            counts = await self._producer.counts(group=self._group)
            paused = "PAUSED · " if counts.paused else ""
            self._words = f"{paused}{counts.waiting:,} waiting · {counts.active:,} active · {counts.delayed:,} delayed"
        return self._words

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._producer is not None:
            await self._producer.close()
