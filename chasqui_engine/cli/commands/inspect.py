"""`chasqui inspect` and `chasqui workers`: the state of the queues, and who runs their jobs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from chasqui_engine import QueueLimits
from chasqui_engine.admin import QueueSnapshot
from chasqui_engine.cli.input.params import GroupOption, QueuesArgument, QueuesOption, parse_queues
from chasqui_engine.cli.monitor import Snapshots, open_monitor, take_snapshots
from chasqui_engine.cli.output.queue_table import queue_table
from chasqui_engine.cli.output.workers_table import workers_table
from chasqui_engine.cli.session import FAILED, Session, command

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_BAD_LINES = 20
_NO_WORKERS = "no workers. Next: chasqui worker MODULE:HANDLER -q QUEUE"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "inspect", rich_help_panel="Inspect")(inspect)
    command(app, "workers", rich_help_panel="Inspect")(workers)


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


async def workers(
    session: Session,
    queues: QueuesArgument = None,
    queue: QueuesOption = None,
    group: GroupOption = "default",
) -> None:
    """Show the workers of queues: where each runs, what it runs, and those that died within the last hour."""
    names = parse_queues(queues, queue)
    async with open_monitor(session, names, group) as monitor:
        found = (await take_snapshots(monitor, names)).queues
    seen = [(one.name, worker) for one in found for worker in one.consumers]
    session.answer(
        [{"queue": name, **asdict(worker)} for name, worker in seen],
        lambda: workers_table(seen, session.console.width) if seen else _NO_WORKERS,
    )


def _render(found: Snapshots, address: str, width: int) -> RenderableType:
    from rich.console import Group

    queues, bad = found.queues, found.describe_bad(_MAX_BAD_LINES)
    if not queues and not bad:
        return f"no queues at {address}. Next: chasqui add NAME DATA -q QUEUE"
    tables = [queue_table(queues, width)] if queues else []
    if len(queues) == 1:
        tables.append(_render_workers(queues[0], width))
        if queues[0].limits != QueueLimits():
            bad = [f"limits: {queues[0].limits}", *bad]
    return Group(*tables, *bad)


def _render_workers(one: QueueSnapshot, width: int) -> RenderableType:
    if not one.consumers:
        return f"no worker in group {one.group}. Next: chasqui worker MODULE:HANDLER -q {one.name}"
    return workers_table([(None, worker) for worker in one.consumers], width)
