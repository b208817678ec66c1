"""`chasqui add`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from chasqui_engine import ChasquiError, Job, Queue
from chasqui_engine.cli.input.params import (
    QueueOption,
    check_delay,
    parse_duration_ms,
    parse_payload,
    parse_time,
    require_queue,
)
from chasqui_engine.cli.input.retries import AttemptsOption, BackoffOption, MaxBackoffOption, parse_backoff
from chasqui_engine.cli.output.terminal import say, say_exactly
from chasqui_engine.cli.session import OUT_OF_TIME, USAGE, Session, command, fail
from chasqui_engine.payload_json import json_text
from chasqui_engine.runtime.clock import now_ms


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "add", rich_help_panel="Work")(add)


async def add(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job's name, by which workers choose its handler.")],
    data: Annotated[str | None, typer.Argument(metavar="DATA", help="JSON, @FILE, or - for stdin.")] = None,
    queue: QueueOption = None,
    as_text: Annotated[bool, typer.Option("--text", help="DATA is plain text, not JSON.")] = False,
    job_id: Annotated[
        str | None,
        typer.Option("--id", "--job-id", metavar="ID", help="The job's id; a job whose id is taken is not added."),
    ] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="TIME", help="Run it later: 10s, 5m, 2h.")] = None,
    at: Annotated[str | None, typer.Option("--at", metavar="WHEN", help="Run it at a time (ISO 8601, or +5m).")] = None,
    attempts: AttemptsOption = None,
    backoff: BackoffOption = None,
    max_backoff: MaxBackoffOption = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="A header of the job; may be repeated.")
    ] = None,
    priority: Annotated[
        int,
        typer.Option("--priority", metavar="N", help="0 is the first; one of 1 or more waits for all smaller ones."),
    ] = 0,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="It does not run if it has not begun by then: 10m.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the result and show it.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "30s",
) -> None:
    """Add one job; with --wait, show what its handler returned."""
    options: dict[str, Any] = {
        "job_id": job_id,
        "attempts": attempts,
        "delay_ms": _parse_moment(delay, at),
        "backoff": parse_backoff(backoff, max_backoff),
        "headers": _parse_headers(header),
        "priority": priority,
        "expires": None if expires is None else parse_duration_ms(expires) / 1000,
    }
    where = require_queue(None, queue, "default")
    payload = parse_payload(data, as_text, ", or pass --text for plain text")
    timeout_s = parse_duration_ms(timeout) / 1000
    async with Queue(where, redis_url=session.url) as opened:
        job = await opened.add(name, payload, **options)
        facts = {"id": job.id, "queue": where, "name": name, "added": opened.added > 0}
        if not session.as_json and not facts["added"]:
            say(f"job {job.id} exists already; nothing was added", sys.stderr)
        if not wait:
            session.answer(facts, lambda: job.id)
            return
        if not session.as_json:
            say(f"job {job.id}: waiting {timeout} for its result", sys.stderr)
        result = await _wait_for_result(job, where, timeout_s)
    session.answer({**facts, "result": result}, lambda: show_result(result))


def _parse_moment(delay: str | None, at: str | None) -> Any:
    """When the job is to run, as `Queue.add` takes it."""
    if delay and at:
        fail("--delay and --at both say when to run the job", "pass one of them", exit_code=USAGE)
    if delay:
        delay_ms = parse_duration_ms(delay)
        check_delay(delay_ms)
        return delay_ms
    if at:
        when = parse_time(at)
        check_delay(when.timestamp() * 1000 - now_ms())
        return when
    return None


def _parse_headers(words: list[str] | None) -> dict[str, str] | None:
    pairs = [word.partition("=") for word in words or []]
    for name, equals, _ in pairs:
        if not name or not equals:
            fail(f"{name + equals!r} is no header", "write --header NAME=VALUE", exit_code=USAGE)
    return {name: value for name, _, value in pairs} or None


async def _wait_for_result(job: Job, queue: str, timeout_s: float) -> Any:
    try:
        return await job.wait_for_result(timeout=timeout_s)
    except TimeoutError:
        fail(
            f"no result of job {job.id} within {timeout_s:g} s",
            f"chasqui result {job.id} -q {queue} --wait goes on waiting",
            code=ChasquiError.code,
            exit_code=OUT_OF_TIME,
        )


def show_result(result: Any) -> None:
    """A result on its own: text as it is, everything else as JSON."""
    say_exactly(result if isinstance(result, str) else json_text(result, indent=2))
