"""`chasqui inspect`: how the queues stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_engine.cli.looking import as_dict, looking
from chasqui_engine.cli.session import Session, command
from chasqui_engine.cli.words import GroupOption, ago
from chasqui_engine.snapshot import QueueSnapshot

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

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
    session.answer(data, lambda: _shown(seen, address))


def _shown(seen: list[QueueSnapshot], address: str) -> RenderableType:
    from rich.console import Group

    if not seen:
        return f"no queues at {address}. Next: chasqui add NAME DATA -q QUEUE"
    if len(seen) == 1:
        return Group(overview(seen), _workers(seen[0]))
    return overview(seen)


def overview(seen: list[QueueSnapshot], extra: dict[str, dict[str, str]] | None = None) -> Table:
    """A row per queue; `extra` has further columns, each a text per queue."""
    from rich.table import Table

    table = Table(header_style="bold", title_justify="left")
    table.add_column("queue", overflow="fold")
    for name in ("waiting", "oldest", "active", "workers", "delayed", "lag", "dead", "repeat", "done/s", "failed/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in extra or {}:
        table.add_column(name, no_wrap=True)
    for one in seen:
        counts, rate = one.counts, one.throughput
        cells = (
            f"{counts.waiting:,}",
            ago(counts.oldest_waiting_ms) if counts.waiting else "-",
            f"{counts.active:,}",
            f"{len(one.consumers):,}",
            f"{counts.delayed:,}",
            ago(counts.delayed_lag_ms) if counts.delayed_lag_ms else "-",
            f"{counts.dead:,}",
            f"{counts.repeatables:,}",
            f"{rate.completed_per_s:,.1f}",
            f"{rate.failed_per_s:,.1f}",
        )
        name = one.name + (" (paused)" if counts.paused else "")
        table.add_row(_plain(name), *cells, *((extra or {})[column].get(one.name, "") for column in extra or {}))
    return table


def _workers(one: QueueSnapshot) -> RenderableType:
    from rich.table import Table

    if not one.consumers:
        return f"no worker in group {one.group}. Next: chasqui worker MODULE:HANDLER -q {one.name}"
    table = Table(header_style="bold")
    table.add_column("worker", overflow="fold")
    table.add_column("active", justify="right")
    table.add_column("last heard of", justify="right")
    for worker in one.consumers:
        table.add_row(_plain(worker.name), f"{worker.active:,}", f"{ago(worker.idle_ms)} ago")
    return table


def _plain(text: str) -> RenderableType:
    """Text that is not markup, whatever is in it."""
    from rich.text import Text

    return Text(text)
