"""`chasqui pause` and `chasqui resume`."""

from __future__ import annotations

import typer

from chasqui_engine.cli.params import QueueArgument, QueueOption, require_queue
from chasqui_engine.cli.session import Session, command


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    command(app, "pause", rich_help_panel="Mend")(pause)
    command(app, "resume", rich_help_panel="Mend")(resume)


async def pause(session: Session, queue_argument: QueueArgument = None, queue: QueueOption = None) -> None:
    """Let workers take no more jobs of a queue. What runs, runs on; what is added, waits."""
    name = require_queue(queue_argument, queue)
    async with session.producer(name) as producer:
        known = await producer.exists()
        changed = await producer.pause()
    said = "paused" if changed else "was paused already"
    told = f"queue {name} {said}; chasqui resume {name} lets it go on"
    if not known:
        told += "\nnothing else is known of a queue of this name (yet): is it spelt right?"
    session.answer({"queue": name, "paused": True, "changed": changed, "known": known}, lambda: told)


async def resume(session: Session, queue_argument: QueueArgument = None, queue: QueueOption = None) -> None:
    """Let workers take the jobs of a queue again."""
    name = require_queue(queue_argument, queue)
    async with session.producer(name) as producer:
        changed = await producer.resume()
    said = "resumed" if changed else "was not paused"
    session.answer({"queue": name, "paused": False, "changed": changed}, lambda: f"queue {name} {said}")
