"""What a shell completes after Tab: queues of the server, reasons of dead letters, names of events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import typer

from chasqui_engine import ChasquiError
from chasqui_engine.events import EVENT_NAMES
from chasqui_engine.values.job import DLQ_REASONS

_PATIENCE_S = 2.0
"""A Tab that is not answered by then completes nothing."""


def complete_queue(context: typer.Context, incomplete: str) -> list[str]:
    """The queues of the server that begin so; none when it cannot be reached."""
    before, comma, last = incomplete.rpartition(",")
    # A shell shows errors in the middle of the line that is being typed.
    with contextlib.suppress(ChasquiError, TimeoutError, OSError):
        names = asyncio.run(_list_queues(context.params.get("url"), context.params.get("conn_id")))
        return [f"{before}{comma}{name}" for name in names if name.startswith(last)]
    return []


async def _list_queues(url: str | None, conn_id: str | None) -> list[str]:
    from chasqui_engine.admin import QueueMonitor
    from chasqui_engine.connections import connection_url

    async with asyncio.timeout(_PATIENCE_S):
        monitor = await QueueMonitor.connect(connection_url(conn_id) if conn_id else url)
        try:
            return await monitor.names()
        finally:
            await monitor.close()


def _complete_from(words: tuple[str, ...]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


complete_reason = _complete_from(DLQ_REASONS)
complete_event = _complete_from(EVENT_NAMES)
