"""`chasqui queue`: empties, cleans and deletes queues."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from chasqui_engine.admin import CleanState
from chasqui_engine.cli.input.params import (
    GroupOption,
    QueueArgument,
    QueueOption,
    YesOption,
    parse_duration_ms,
    require_queue,
)
from chasqui_engine.cli.session import USAGE, Session, command, fail

_STATES: tuple[CleanState, ...] = tuple(state for state in get_args(CleanState) if state != "active")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Queues: drain, clean, delete.")
    command(group, "drain")(drain)
    command(group, "clean")(clean)
    command(group, "delete")(delete)
    app.add_typer(group, name="queue", rich_help_panel="Manage")


async def drain(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    keep_delayed: Annotated[bool, typer.Option("--keep-delayed", help="Leave delayed jobs.")] = False,
    group: GroupOption = "default",
    yes: YesOption = False,
) -> None:
    """Delete all waiting and delayed jobs. Running jobs, dead letters and results stay."""
    name = require_queue(queue_argument, queue)
    async with session.existing(name) as producer:
        counts = await producer.counts(group=group)
        found = counts.waiting + counts.prioritized + (0 if keep_delayed else counts.delayed)
        if found:
            session.confirm(f"Delete {_count(found)} of {name} for good?", yes)
        removed = await producer.drain(not keep_delayed, group=group)
        left = (await producer.counts(group=group)).active
    summary = f"{_count(removed)} deleted" + (f", {_count(left)} running" if left else "")
    session.answer({"queue": name, "removed": removed, "active": left}, lambda: summary)


async def clean(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help=f"Which jobs: {', '.join(_STATES)}.")
    ] = "completed",
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Only jobs that are older; results have no age.")
    ] = "0",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 1000,
    group: GroupOption = "default",
    yes: YesOption = False,
) -> None:
    """Delete jobs of one state, oldest first: results (completed), dead letters (failed), delayed or waiting jobs."""
    name = require_queue(queue_argument, queue)
    known = next((one for one in _STATES if one == state), None)
    if known is None:
        fail(f"there is no state {state!r}", f"choose from {', '.join(_STATES)}", exit_code=USAGE)
    grace_ms = parse_duration_ms(older_than)
    async with session.existing(name) as producer:
        session.confirm(f"Delete up to {limit:,} {known} jobs of {name} for good?", yes)
        removed = await producer.clean(grace_ms, limit, known, group=group)
    summary = f"{_count(len(removed))} deleted"
    session.answer({"queue": name, "state": known, "removed": removed}, lambda: summary)


async def delete(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    force: Annotated[bool, typer.Option("--force", help="Also while jobs run; they end unrecorded.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete a queue with all that it has: jobs, dead letters, results, events, repeatables. Refuses while jobs run."""
    name = require_queue(queue_argument, queue)
    async with session.existing(name) as producer:
        session.confirm(f"Delete the queue {name} with all that it has for good?", yes)
        keys = await producer.obliterate(force=force)
    session.answer({"queue": name, "keys": keys}, lambda: f"queue {name} deleted ({keys:,} keys)")


def _count(jobs: int) -> str:
    return "1 job" if jobs == 1 else f"{jobs:,} jobs"
