"""`chasqui dlq`: lists, replays, exports and deletes dead letters."""

from __future__ import annotations

import base64
import contextlib
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine import DlqEntry
from chasqui_engine.admin import describe, died_at_ms
from chasqui_engine.cli.atomic_file import write_atomically
from chasqui_engine.cli.input.dead_letter_selection import Selection, with_selection
from chasqui_engine.cli.input.params import QueueArgument, QueueOption, YesOption, require_queue
from chasqui_engine.cli.output.formatting import ago, brief
from chasqui_engine.cli.output.letter_blocks import blocks_of_letters
from chasqui_engine.cli.output.record_table import record_table
from chasqui_engine.cli.output.terminal import one_json_line
from chasqui_engine.cli.session import FAILED, NOT_THERE, USAGE, Session, command, fail
from chasqui_engine.runtime.clock import now_ms

if TYPE_CHECKING:
    from rich.console import RenderableType

_PEEKED = 20


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Dead letters: peek, replay, export, delete.")
    command(group, "peek")(with_selection(peek))
    command(group, "replay")(with_selection(replay))
    command(group, "export")(with_selection(export))
    command(group, "delete")(with_selection(delete))
    app.add_typer(group, name="dlq", rich_help_panel="Manage")


async def peek(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    *,
    selection: Selection,
    details: Annotated[
        bool, typer.Option("--details", help="Each as a block, with its whole error, traceback and payload.")
    ] = False,
) -> None:
    """Show dead letters, newest first: what failed, and the job as it was. Shows 20 without --limit."""
    selection = replace(selection, limit=selection.limit or _PEEKED)
    async with session.existing(require_queue(queue_argument, queue)) as producer:
        found = await selection.newest(producer)
        total = (await producer.counts()).dead
        facts = [describe(entry) for entry in found]
        if details:
            traces = await producer.get_tracebacks([one["job_id"] for one in facts])
            facts = [{**one, "traceback": trace} for one, trace in zip(facts, traces, strict=True)]
    session.answer(
        facts,
        lambda: blocks_of_letters(facts, total) if details else _render(found, total, session.console.width),
    )


async def replay(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    *,
    selection: Selection,
    yes: YesOption = False,
) -> int:
    """Put dead letters back on the queue, oldest first, with a fresh attempt count."""
    where = require_queue(queue_argument, queue)
    replayed = 0
    async with session.existing(where) as producer:
        ids = [entry.dlq_id async for entry in selection.entries(producer)]
        if ids:
            session.confirm(f"Replay {count_letters(len(ids))} of {where}?", yes)
            # Read a second time, so that they are never all in memory; those that die meanwhile are left out.
            async for page in selection.pages(producer, until=ids[-1]):
                replayed += await producer.replay_dead(page)
    left = len(ids) - replayed
    summary = f"{replayed:,} replayed" + (f", {left:,} left: unreadable, or already gone" if left else "")
    session.answer({"queue": where, "selected": len(ids), "replayed": replayed}, lambda: summary)
    if not ids:
        return NOT_THERE
    return 0 if replayed else FAILED


async def delete(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    *,
    selection: Selection,
    every: Annotated[bool, typer.Option("--all", help="Delete all of them, when no filter is given.")] = False,
    yes: YesOption = False,
) -> int:
    """Delete dead letters for good, oldest first. Asks for confirmation; export them first if you may need them."""
    if selection.is_everything and not every:
        fail("this would delete every dead letter", "pass a filter, or --all to delete them all", exit_code=USAGE)
    where = require_queue(queue_argument, queue)
    async with session.existing(where) as producer:
        found = [entry.dlq_id async for entry in selection.entries(producer)]
        if found:
            session.confirm(f"Delete {count_letters(len(found))} of {where} for good?", yes)
        deleted = await producer.delete_dead(found)
    session.answer({"queue": where, "deleted": deleted}, lambda: f"{deleted:,} deleted")
    return 0 if found else NOT_THERE


async def export(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="The file to write; - is stdout.")] = "-",
    *,
    selection: Selection,
) -> None:
    """Write dead letters as JSON lines, oldest first, each with the decoded job and its exact bytes (base64)."""
    where, count = require_queue(queue_argument, queue), 0
    async with session.existing(where) as producer:
        with contextlib.nullcontext(sys.stdout) if out == "-" else write_atomically(out) as file:
            async for entry in selection.entries(producer):
                line = {**describe(entry), "envelope": base64.b64encode(entry.payload).decode()}
                file.write(one_json_line(line) + "\n")
                count += 1
    if out != "-":
        session.answer({"queue": where, "exported": count, "file": out}, lambda: f"{count:,} written to {out}")


def count_letters(count: int) -> str:
    """A number of dead letters, for people."""
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"


def _render(found: list[DlqEntry], total: int, width: int) -> RenderableType:
    from rich.console import Group

    if not found:
        return "no dead letters" if not total else f"no dead letters match ({total:,} in total)"
    columns = ("died", "job", "name", "reason", "error", "payload")
    table = record_table(columns, [_row(entry) for entry in found], width)
    reasons = Counter(entry.reason for entry in found)
    tally = ", ".join(f"{count:,} {brief(reason)}" for reason, count in reasons.most_common())
    return Group(table, f"{len(found):,} of {total:,} shown: {tally}")


def _row(entry: DlqEntry) -> tuple[str, ...]:
    facts = describe(entry)
    shown = facts["unreadable"] if "unreadable" in facts else facts["payload"]
    age = f"{ago(now_ms() - died_at_ms(entry))} ago"
    error = brief(entry.detail or "-", 200)
    return age, facts["job_id"] or entry.dlq_id, entry.name, entry.reason, error, brief(shown, 120)
