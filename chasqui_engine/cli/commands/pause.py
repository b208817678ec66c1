"""`chasqui pause` and `chasqui resume`."""

from __future__ import annotations

import typer

from chasqui_engine.cli.input.params import QueueArgument, QueueOption, require_queue
from chasqui_engine.cli.session import Session, command


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    command(app, "pause", rich_help_panel="Manage")(pause)
    command(app, "resume", rich_help_panel="Manage")(resume)


async def pause(session: Session, queue_argument: QueueArgument = None, queue: QueueOption = None) -> None:
    """Stop workers from taking jobs of a queue. Running jobs continue; added jobs wait."""
    name = require_queue(queue_argument, queue)
    async with session.producer(name) as producer:
        known = await producer.exists()
        changed = await producer.pause()
    outcome = "paused" if changed else "was paused already"
    summary = f"queue {name} {outcome}; chasqui resume {name} ends the pause"
    if not known:
        summary += "\nnothing else is known of this queue: check the spelling if it should exist"
    session.answer({"queue": name, "paused": True, "changed": changed, "known": known}, lambda: summary)


async def resume(session: Session, queue_argument: QueueArgument = None, queue: QueueOption = None) -> None:
    """Let workers take jobs of a paused queue again."""
    name = require_queue(queue_argument, queue)
    async with session.producer(name) as producer:
        changed = await producer.resume()
    outcome = "resumed" if changed else "was not paused"
    session.answer({"queue": name, "paused": False, "changed": changed}, lambda: f"queue {name} {outcome}")
