"""`chasqui delayed`: lists, cancels and reschedules delayed jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_engine import Producer
from chasqui_engine.admin import DelayedJob
from chasqui_engine.cli.input.params import (
    IdArguments,
    QueueArgument,
    QueueOption,
    parse_duration_ms,
    parse_time,
    queue_and_rest,
    require_queue,
)
from chasqui_engine.cli.output.formatting import ago, brief
from chasqui_engine.cli.output.record_table import record_table
from chasqui_engine.cli.session import NOT_THERE, USAGE, Session, command, fail
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.durations import iso

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from rich.console import RenderableType


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Delayed jobs: list, cancel, run-now, reschedule.")
    command(group, "list")(list_)
    command(group, "cancel")(cancel)
    command(group, "run-now")(run_now)
    command(group, "reschedule")(reschedule)
    app.add_typer(group, name="delayed", rich_help_panel="Manage")


async def list_(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")] = 20,
    start: Annotated[int, typer.Option("--start", min=0, help="Skip this many.")] = 0,
) -> None:
    """List delayed jobs, the next to run first, jobs between two retries included."""
    async with session.existing(require_queue(queue_argument, queue)) as producer:
        found = await producer.list_delayed(limit, start=start)
        total = (await producer.counts()).delayed
    session.answer([_describe(one) for one in found], lambda: _render(found, start, total, session.console.width))


async def cancel(session: Session, words: IdArguments, queue: QueueOption = None) -> int:
    """Cancel delayed jobs: they never run."""
    return await _apply(session, words, queue, "cancelled", lambda producer, job_id: producer.cancel_delayed(job_id))


async def run_now(session: Session, words: IdArguments, queue: QueueOption = None) -> int:
    """Run delayed jobs now."""
    return await _apply(session, words, queue, "runs now", lambda producer, job_id: producer.run_delayed_now(job_id))


async def reschedule(
    session: Session,
    words: IdArguments,
    queue: QueueOption = None,
    at: Annotated[str | None, typer.Option("--at", metavar="WHEN", help="The new time: ISO 8601, or +5m.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="TIME", help="From now: 10s, 5m, 2h.")] = None,
) -> int:
    """Give delayed jobs another time."""
    if (at is None) == (delay is None):
        fail("exactly one new time is required", "pass --at or --delay", exit_code=USAGE)
    when = (now_ms() + parse_duration_ms(delay)) / 1000 if delay is not None else parse_time(at or "").timestamp()
    return await _apply(
        session,
        words,
        queue,
        f"set to {iso(when * 1000)}",
        lambda producer, job_id: producer.reschedule_delayed(job_id, when),
    )


async def _apply(
    session: Session,
    words: list[str],
    queue: list[str] | None,
    done: str,
    act: Callable[[Producer, str], Awaitable[bool]],
) -> int:
    name, job_ids = queue_and_rest(words, queue, "ID")
    async with session.producer(name) as producer:
        outcome = {job_id: await act(producer, job_id) for job_id in job_ids}
    lines = [f"{job_id}: {done if found else 'not delayed'}" for job_id, found in outcome.items()]
    session.answer([{"id": job_id, "done": found} for job_id, found in outcome.items()], lambda: "\n".join(lines))
    return 0 if all(outcome.values()) else NOT_THERE


def _describe(one: DelayedJob) -> dict[str, Any]:
    job = one.job
    facts: dict[str, Any] = {"run_at_ms": one.run_at_ms, "run_at": iso(one.run_at_ms)}
    if job is None:
        return {**facts, "id": None, "unreadable": True}
    return {**facts, "id": job.id, "name": job.name, "attempt": job.attempt, "payload": job.payload}


def _render(found: list[DelayedJob], start: int, total: int, width: int) -> RenderableType:
    from rich.console import Group

    if not found:
        return f"there are only {total:,} delayed jobs" if total and start else "no delayed jobs"
    columns = ("runs", "at", "job", "name", "attempts", "payload")
    table = record_table(columns, [_row(one) for one in found], width)
    which = f"{start + 1:,} to {start + len(found):,}" if start else f"{len(found):,}"
    return Group(table, f"{which} of {total:,} shown")


def _row(one: DelayedJob) -> tuple[str, ...]:
    due_ms = one.run_at_ms - now_ms()
    due = f"in {ago(due_ms)}" if due_ms >= 0 else f"overdue by {ago(-due_ms)}"
    job = one.job
    if job is None:
        return due, iso(one.run_at_ms), "?", "", "", "cannot be read"
    return due, iso(one.run_at_ms), job.id, job.name, str(job.attempt), brief(job.payload)
