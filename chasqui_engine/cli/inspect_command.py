"""`chasqui inspect`: how the queues stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_engine.cli.looking import as_dict, looking
from chasqui_engine.cli.overview import overview
from chasqui_engine.cli.session import Session, command
from chasqui_engine.cli.words import GroupOption, ago
from chasqui_engine.snapshot import QueueSnapshot

if TYPE_CHECKING:
    from rich.console import RenderableType

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
) -> None:
    """Show how queues stand: depth, active per worker, delayed with lag, dead, repeatables, throughput."""
    names = list(dict.fromkeys([*(queues or []), *(queue or [])]))
    async with looking(session, names, group) as looker:
        seen = await looker.look()
        address = looker.address
    data: Any = [as_dict(one) for one in seen]
    session.answer(data, lambda: _shown(seen, address, session.console.width))


def _shown(seen: list[QueueSnapshot], address: str, width: int) -> RenderableType:
    from rich.console import Group

    if not seen:
        return f"no queues at {address}. Next: chasqui add NAME DATA -q QUEUE"
    if len(seen) == 1:
        return Group(overview(seen, width), _workers(seen[0]))
    return overview(seen, width)


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
