"""`chasqui inspect`: how the queues stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine.admin.snapshot import QueueSnapshot
from chasqui_engine.cli.formatting import ago
from chasqui_engine.cli.monitor import Sighting, open_monitor
from chasqui_engine.cli.params import GroupOption
from chasqui_engine.cli.queue_table import queue_table
from chasqui_engine.cli.session import FAILED, Session, command

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_BAD = 20
"""Lines about queues that cannot be looked at."""

QueuesArgument = Annotated[list[str] | None, typer.Argument(metavar="QUEUE", help="The queues; all, if none.")]
QueuesOption = Annotated[
    list[str] | None, typer.Option("--queue", "-q", metavar="NAME", help="A queue; again for more.")
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "inspect", rich_help_panel="Look")(inspect)


async def inspect(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    group: GroupOption = "default",
) -> int:
    """Show how queues stand: depth, active per worker, delayed with lag, dead, repeatables, throughput."""
    names = list(dict.fromkeys([*(queues or []), *(queue or [])]))
    async with open_monitor(session, names, group) as looker:
        seen = await looker.look()
        address = looker.address
    session.answer(seen.as_dicts(), lambda: _shown(seen, address, session.console.width))
    return FAILED if names and seen.bad else 0


def _shown(seen: Sighting, address: str, width: int) -> RenderableType:
    from rich.console import Group

    queues, below = seen.queues, seen.told(_MOST_BAD)
    if not queues and not below:
        return f"no queues at {address}. Next: chasqui add NAME DATA -q QUEUE"
    tables = [queue_table(queues, width)] if queues else []
    if len(queues) == 1:
        tables.append(_workers(queues[0]))
    return Group(*tables, *below)


def _workers(one: QueueSnapshot) -> RenderableType:
    from rich.table import Table

    if not one.consumers:
        return f"no worker in group {one.group}. Next: chasqui worker MODULE:HANDLER -q {one.name}"
    table = Table(header_style="bold")
    table.add_column("worker", overflow="fold")
    table.add_column("active", justify="right")
    table.add_column("last heard of", justify="right")
    for worker in one.consumers:
        table.add_row(worker.name, f"{worker.active:,}", f"{ago(worker.idle_ms)} ago")
    return table
