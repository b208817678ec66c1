"""Snapshots of the queues that a command names, or of all: for `inspect`, `watch` and `doctor`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from chasqui_engine.admin import BadQueue, QueueMonitor, QueueSnapshot
from chasqui_engine.cli.output.formatting import brief
from chasqui_engine.cli.session import Session, no_such_queue


class Snapshots(NamedTuple):
    """The queues, and those that cannot be read."""

    queues: list[QueueSnapshot]
    bad: list[BadQueue]

    def as_dicts(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [_as_dict(one) for one in self.queues] + [{"name": one.name, "error": one.error} for one in self.bad]

    def describe_bad(self, limit: int) -> list[str]:
        """Up to `limit` lines about queues that cannot be read."""
        lines = [f"queue {brief(one.name)} cannot be read: {brief(one.error, 200)}" for one in self.bad[:limit]]
        more = len(self.bad) - limit
        return lines if more <= 0 else [*lines, f"{more:,} more cannot be read; --json lists them"]


def _as_dict(one: QueueSnapshot) -> dict[str, Any]:
    return {**asdict(one), "workers": one.workers, "running": one.running, "buffered": one.buffered}


async def take_snapshots(monitor: QueueMonitor, queues: Sequence[str]) -> Snapshots:
    """Snapshots of these queues, or of all if none is named."""
    seen = await monitor.take_snapshots(queues or await monitor.names())
    return Snapshots(
        [one for one in seen if isinstance(one, QueueSnapshot)],
        [one for one in seen if isinstance(one, BadQueue)],
    )


@contextlib.asynccontextmanager
async def open_monitor(
    session: Session, queues: Sequence[str], group: str, *, may_be_missing: bool = False
) -> AsyncIterator[QueueMonitor]:
    """A connected monitor; the queues must exist, unless they `may_be_missing`."""
    monitor = await QueueMonitor.connect(session.url, queue=queues[0] if queues else "default", group=group)
    try:
        for name in [] if may_be_missing else queues:
            if not await monitor.exists(name):
                no_such_queue(name)
        yield monitor
    finally:
        await monitor.close()
