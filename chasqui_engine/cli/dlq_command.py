"""`chasqui dlq`: dead letters, looked at and given another life, or none."""

from __future__ import annotations

import base64
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_engine.cli.session import NOT_THERE, USAGE, Session, command, fail
from chasqui_engine.cli.words import QueueArgument, QueueOption, YesOption, ago, brief, duration_ms, the_queue
from chasqui_engine.clock import now_ms
from chasqui_engine.dead_letters import DeadFilter, described, died_at_ms
from chasqui_engine.job import DlqEntry
from chasqui_engine.producer import Producer

if TYPE_CHECKING:
    from rich.console import RenderableType

_PAGE = 500

ReasonOption = Annotated[
    list[str] | None, typer.Option("--reason", metavar="REASON", help="Only such: retries_exhausted, unrecoverable …")
]
NameOption = Annotated[list[str] | None, typer.Option("--name", metavar="NAME", help="Only jobs of this name.")]
JobIdOption = Annotated[list[str] | None, typer.Option("--job-id", metavar="ID", help="Only this job.")]
OlderOption = Annotated[str | None, typer.Option("--older-than", metavar="TIME", help="Only what died before: 2h, 7d.")]
NewerOption = Annotated[str | None, typer.Option("--newer-than", metavar="TIME", help="Only what died since: 10m, 1d.")]
LimitOption = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="So many at most, the oldest first.")]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which dead letters are meant, and how many of them."""

    wanted: DeadFilter
    limit: int | None

    @staticmethod
    def of(
        reason: list[str] | None,
        name: list[str] | None,
        job_id: list[str] | None,
        older: str | None,
        newer: str | None,
        limit: int | None,
    ) -> Selection:
        """From the options."""
        now = now_ms()
        wanted = DeadFilter(
            reasons=frozenset(reason or ()),
            names=frozenset(name or ()),
            job_ids=frozenset(job_id or ()),
            before_ms=now - duration_ms(older) if older else float("inf"),
            after_ms=now - duration_ms(newer) if newer else 0,
        )
        return Selection(wanted, limit)

    async def entries(self, producer: Producer) -> AsyncIterator[DlqEntry]:
        """Those that are meant, the oldest first."""
        after: str | None = None
        found = 0
        while page := await producer.page_dlq(after, _PAGE):
            after = page[-1].dlq_id
            for entry in page:
                if self.wanted.takes(entry):
                    yield entry
                    found += 1
                    if found == self.limit:
                        return


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Dead letters: peek, replay, export, delete.")
    command(group, "peek")(peek)
    command(group, "replay")(replay)
    command(group, "export")(export)
    command(group, "delete")(delete)
    app.add_typer(group, name="dlq", rich_help_panel="Mend")


async def peek(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    reason: ReasonOption = None,
    name: NameOption = None,
    job_id: JobIdOption = None,
    older: OlderOption = None,
    newer: NewerOption = None,
    limit: LimitOption = 20,
) -> None:
    """Show dead letters: what failed, and the job as it was."""
    selection = Selection.of(reason, name, job_id, older, newer, limit)
    async with session.producer(the_queue(queue_argument, queue)) as producer:
        found = [entry async for entry in selection.entries(producer)]
        total = (await producer.counts()).dead
    session.answer([described(entry) for entry in found], lambda: _table(found, total))


async def replay(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    reason: ReasonOption = None,
    name: NameOption = None,
    job_id: JobIdOption = None,
    older: OlderOption = None,
    newer: NewerOption = None,
    limit: LimitOption = 100,
    yes: YesOption = False,
) -> int:
    """Put dead letters back on the queue, with their attempts counted anew."""
    where, selection = the_queue(queue_argument, queue), Selection.of(reason, name, job_id, older, newer, limit)
    async with session.producer(where) as producer:
        found = [entry async for entry in selection.entries(producer)]
        if found:
            session.confirm(f"Replay {len(found):,} dead letters of {where}?", yes)
        moved = await producer.replay_dead(found)
    left = len(found) - moved
    told = f"{moved:,} replayed" + (f", {left:,} stay: they cannot be read, or are gone" if left else "")
    session.answer({"queue": where, "selected": len(found), "replayed": moved}, lambda: told)
    return 0 if found else NOT_THERE


async def delete(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    reason: ReasonOption = None,
    name: NameOption = None,
    job_id: JobIdOption = None,
    older: OlderOption = None,
    newer: NewerOption = None,
    limit: LimitOption = None,
    every: Annotated[bool, typer.Option("--all", help="All of them, when no filter is given.")] = False,
    yes: YesOption = False,
) -> int:
    """Delete dead letters for good. Asks first; export them before, if they may be needed."""
    if not (every or reason or name or job_id or older or newer or limit):
        fail("this would delete every dead letter", "pass a filter, or --all if that is meant", exit_code=USAGE)
    where, selection = the_queue(queue_argument, queue), Selection.of(reason, name, job_id, older, newer, limit)
    async with session.producer(where) as producer:
        found = [entry.dlq_id async for entry in selection.entries(producer)]
        if found:
            session.confirm(f"Delete {len(found):,} dead letters of {where} for good?", yes)
        deleted = await producer.delete_dead(found)
    session.answer({"queue": where, "deleted": deleted}, lambda: f"{deleted:,} deleted")
    return 0 if found else NOT_THERE


async def export(
    session: Session,
    queue_argument: QueueArgument = None,
    queue: QueueOption = None,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where to; - is stdout.")] = "-",
    reason: ReasonOption = None,
    name: NameOption = None,
    job_id: JobIdOption = None,
    older: OlderOption = None,
    newer: NewerOption = None,
    limit: LimitOption = None,
) -> None:
    """Write dead letters as JSON lines, each with the decoded job and its exact bytes (base64)."""
    selection, count = Selection.of(reason, name, job_id, older, newer, limit), 0
    where = the_queue(queue_argument, queue)
    file = sys.stdout if out == "-" else _opened(out)
    try:
        async with session.producer(where) as producer:
            async for entry in selection.entries(producer):
                line = {**described(entry), "envelope": base64.b64encode(entry.payload).decode()}
                file.write(json.dumps(line, default=str, ensure_ascii=False) + "\n")
                count += 1
    finally:
        if file is not sys.stdout:
            file.close()
    if out != "-":
        session.answer({"queue": where, "exported": count, "file": out}, lambda: f"{count:,} written to {out}")


def _opened(path: str) -> Any:
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as err:
        fail(f"{path} cannot be written: {err.strerror}", "choose another file", exit_code=USAGE)


def _table(found: list[DlqEntry], total: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if not found:
        return "no dead letters" if not total else f"none of the {total:,} dead letters is meant by these filters"
    table = Table(header_style="bold")
    for column in ("died", "job", "name", "reason", "what failed", "payload"):
        table.add_column(column, overflow="fold")
    for entry in found:
        facts = described(entry)
        shown = facts["unreadable"] if "unreadable" in facts else facts["payload"]
        age = f"{ago(now_ms() - died_at_ms(entry))} ago"
        cells = (age, facts["job_id"] or entry.dlq_id, entry.name, entry.reason, brief(entry.detail or "-", 200))
        table.add_row(*map(Text, (*cells, brief(shown, 120))))
    reasons = Counter(entry.reason for entry in found)
    tally = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
    return Group(table, f"{len(found):,} of {total:,} shown: {tally}")
