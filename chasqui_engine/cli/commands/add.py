"""`chasqui add`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chasqui_engine.cli.params import (
    QueueOption,
    parse_delay,
    parse_duration_ms,
    parse_payload,
    parse_time,
    require_queue,
)
from chasqui_engine.cli.session import USAGE, Session, command, fail
from chasqui_engine.cli.terminal import say_exactly
from chasqui_engine.clock import now_ms
from chasqui_engine.payload_json import json_text
from chasqui_engine.queue import Queue


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "add", rich_help_panel="Work")(add)


async def add(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job's name: which handler it is for.")],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="JSON, @FILE, or - for stdin.")] = None,
    queue: QueueOption = None,
    as_text: Annotated[bool, typer.Option("--text", help="DATA is plain text, not JSON.")] = False,
    job_id: Annotated[
        str | None, typer.Option("--id", "--job-id", metavar="ID", help="An id of yours: adding it again does nothing.")
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="TIME", help="Run it later: 10s, 5m, 2h.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="WHEN", help="Run it at a time (ISO 8601, or +5m).")] = None,
    attempts: Annotated[int | None, typer.Option("--attempts", min=1, help="Runs in all, if it fails.")] = None,
    backoff: Annotated[
        str | None, typer.Option("--backoff", metavar="TIME", help="Wait between runs: 500ms, 30s.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and show it.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "30s",
) -> None:
    """Add one job; with --wait, show what its handler returned."""
    if delay and at:
        fail("--delay and --at say the same thing twice", "pass one of them", exit_code=USAGE)
    options: dict[str, Any] = {"job_id": job_id, "attempts": attempts}
    if delay:
        options["delay_ms"] = parse_duration_ms(delay)
        parse_delay(options["delay_ms"])
    if at:
        options["delay_ms"] = parse_time(at)
        parse_delay(options["delay_ms"].timestamp() * 1000 - now_ms())
    if backoff:
        options["backoff"] = parse_duration_ms(backoff)
    where = require_queue(None, queue, "default")
    given = parse_payload(data, as_text, ", or pass --text for plain text")
    async with Queue(where, redis_url=session.url) as opened:
        job = await opened.add(name, given, **options)
        if not wait:
            session.answer({"id": job.id, "queue": where, "name": name}, lambda: job.id)
            return
        result = await job.wait_for_result(timeout=parse_duration_ms(timeout) / 1000)
    session.answer({"id": job.id, "result": result}, lambda: show_result(result))


def show_result(result: Any) -> None:
    """A result on its own: text as it is, everything else as JSON."""
    say_exactly(result if isinstance(result, str) else json_text(result, indent=2))
