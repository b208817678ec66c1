"""The table of workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chasqui_engine.admin import ConsumerInfo
from chasqui_engine.cli.output.formatting import ago, brief
from chasqui_engine.cli.output.record_table import record_table
from chasqui_engine.runtime.clock import now_ms

if TYPE_CHECKING:
    from rich.console import RenderableType


def workers_table(workers: Sequence[tuple[str | None, ConsumerInfo]], width: int) -> RenderableType:
    """Workers, each with its queue; without the queues if these are None."""
    with_queue = any(queue is not None for queue, _ in workers)
    columns = (*(["queue"] if with_queue else []), "worker", "where", "running", "buffered", "up", "state", "handlers")
    rows = [(*([queue or ""] if with_queue else []), *_row(one)) for queue, one in workers]
    return record_table(columns, rows, width)


def _row(one: ConsumerInfo) -> tuple[str, ...]:
    running = f"{one.runs:,}" if one.concurrency is None else f"{one.runs:,} of {one.concurrency:,}"
    up = "-" if one.started_ms is None or not one.alive else ago(max(0, now_ms() - one.started_ms))
    where = "-" if one.host is None else f"{one.host} {one.pid or ''}".strip()
    return one.name, where, running, f"{one.active - one.runs:,}", up, state_of(one), brief(", ".join(one.handlers), 60)


def state_of(one: ConsumerInfo) -> str:
    """Whether it lives, and when it was last seen if that matters."""
    if one.alive:
        return "alive"
    what = "last seen" if one.alive is None else "died: last seen"
    return f"{what} {ago(one.idle_ms)} ago"
