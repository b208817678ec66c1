"""`chasqui inspect`: the state of the queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from chasqui_engine.admin import QueueSnapshot
from chasqui_engine.cli.input.params import GroupOption, QueuesArgument, QueuesOption, parse_queues
from chasqui_engine.cli.monitor import Snapshots, open_monitor, take_snapshots
from chasqui_engine.cli.output.formatting import ago
from chasqui_engine.cli.output.queue_table import queue_table
from chasqui_engine.cli.session import FAILED, Session, command

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_BAD_LINES = 20


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "inspect", rich_help_panel="Inspect")(inspect)


async def inspect(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    group: GroupOption = "default",
) -> int:
    """Show the state of queues: depth, active per worker, delayed with lag, dead, repeatables, throughput."""
    names = parse_queues(queues, queue)
    async with open_monitor(session, names, group) as monitor:
        found = await take_snapshots(monitor, names)
        address = monitor.address
    session.answer(found.as_dicts(), lambda: _render(found, address, session.console.width))
    return FAILED if names and found.bad else 0


def _render(found: Snapshots, address: str, width: int) -> RenderableType:
    from rich.console import Group

    queues, bad = found.queues, found.describe_bad(_MAX_BAD_LINES)
    if not queues and not bad:
        return f"no queues at {address}. Next: chasqui add NAME DATA -q QUEUE"
    tables = [queue_table(queues, width)] if queues else []
    if len(queues) == 1:
        tables.append(_render_workers(queues[0]))
    return Group(*tables, *bad)


def _render_workers(one: QueueSnapshot) -> RenderableType:
    from rich.table import Table

    if not one.consumers:
        return f"no worker in group {one.group}. Next: chasqui worker MODULE:HANDLER -q {one.name}"
    table = Table(header_style="bold")
    table.add_column("worker", overflow="fold")
    table.add_column("active", justify="right")
    table.add_column("last seen", justify="right")
    for worker in one.consumers:
        table.add_row(worker.name, f"{worker.active:,}", f"{ago(worker.idle_ms)} ago")
    return table
