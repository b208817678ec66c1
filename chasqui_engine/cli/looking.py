"""Snapshots of queues for `inspect`, `watch` and `doctor`: one link for all of them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from chasqui_engine import looking as engine
from chasqui_engine._redis import inspecting
from chasqui_engine._redis.connection import Link
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.cli.session import Session, no_such_queue
from chasqui_engine.snapshot import QueueSnapshot


class Looker:
    """Looks at the queues that were asked for, or at all there are."""

    def __init__(self, looker: engine.Looker, queues: Sequence[str]) -> None:
        self._looker = looker
        self._queues = list(queues)

    @property
    def address(self) -> str:
        """Where the server is, for people."""
        return self._looker.address

    @property
    def link(self) -> Link:
        """The link that it looks through."""
        return self._looker.link

    async def names(self) -> list[str]:
        """The queues that were asked for, or all there are."""
        return self._queues or await self._looker.names()

    async def look(self) -> list[QueueSnapshot]:
        """How they stand now."""
        return await self._looker.look(await self.names())


@contextlib.asynccontextmanager
async def looking(
    session: Session, queues: Sequence[str], group: str, *, to_come: bool = False
) -> AsyncIterator[Looker]:
    """A looker, for the time of the block; unless they are `to_come`, the queues must be there."""
    looker = await engine.Looker.connect(session.url, queue=queues[0] if queues else "default", group=group)
    try:
        for name in [] if to_come else queues:
            if not await inspecting.exists(looker.link, QueueKeys(name)):
                no_such_queue(name)
        yield Looker(looker, queues)
    finally:
        await looker.close()


def as_dict(seen: QueueSnapshot) -> dict[str, Any]:
    """For JSON."""
    return asdict(seen)
