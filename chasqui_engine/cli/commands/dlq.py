"""`chasqui dlq`: dead letters, looked at and given another life, or none."""

from __future__ import annotations

import base64
import contextlib
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from chasqui_engine.admin.dead_letters import DeadFilter, described, died_at_ms
from chasqui_engine.cli.atomic_file import write_atomically
from chasqui_engine.cli.formatting import ago, brief
from chasqui_engine.cli.params import QueueArgument, QueueOption, YesOption, parse_duration_ms, require_queue
from chasqui_engine.cli.session import FAILED, NOT_THERE, USAGE, Session, command, fail
from chasqui_engine.cli.terminal import one_json_line
from chasqui_engine.clock import now_ms
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
            before_ms=now - parse_duration_ms(older) if older else float("inf"),
            after_ms=now - parse_duration_ms(newer) if newer else 0,
        )
        return Selection(wanted, limit)

    async def entries(self, producer: Producer, until: str | None = None) -> AsyncIterator[DlqEntry]:
        """Those that are meant, the oldest first; with `until`, none behind that one."""
        async for page in self.pages(producer, until):
            for entry in page:
                yield entry

    async def pages(self, producer: Producer, until: str | None = None) -> AsyncIterator[list[DlqEntry]]:
        """The same, many at once."""
        after: str | None = None
        left = self.limit
        while page := await producer.page_dlq(after, _PAGE):
            after = page[-1].dlq_id
            known = [entry for entry in page if until is None or _order(entry.dlq_id) <= _order(until)]
            meant = [entry for entry in known if self.wanted.takes(entry)][:left]
            if meant:
                yield meant
            left = None if left is None else left - len(meant)
            if left == 0 or len(known) < len(page):
                return


def _order(dlq_id: str) -> tuple[int, int]:
    ms, _, number = dlq_id.partition("-")
    return int(ms), int(number)


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
    async with session.existing(require_queue(queue_argument, queue)) as producer:
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
    limit: LimitOption = None,
    yes: YesOption = False,
) -> int:
    """Put dead letters back on the queue, with their attempts counted anew."""
    where, selection = require_queue(queue_argument, queue), Selection.of(reason, name, job_id, older, newer, limit)
    replayed = 0
    async with session.existing(where) as producer:
        ids = [entry.dlq_id async for entry in selection.entries(producer)]
        if ids:
            session.confirm(f"Replay {letters(len(ids))} of {where}?", yes)
            # Looked at again, so that not all need to be held at once; what dies meanwhile is not for this replay.
            async for page in selection.pages(producer, until=ids[-1]):
                replayed += await producer.replay_dead(page)
    left = len(ids) - replayed
    told = f"{replayed:,} replayed" + (f", {left:,} stay: they cannot be read, or are gone" if left else "")
    session.answer({"queue": where, "selected": len(ids), "replayed": replayed}, lambda: told)
    if not ids:
        return NOT_THERE
    return 0 if replayed else FAILED


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
    where, selection = require_queue(queue_argument, queue), Selection.of(reason, name, job_id, older, newer, limit)
    async with session.existing(where) as producer:
        found = [entry.dlq_id async for entry in selection.entries(producer)]
        if found:
            session.confirm(f"Delete {letters(len(found))} of {where} for good?", yes)
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
    where = require_queue(queue_argument, queue)
    async with session.existing(where) as producer:
        with contextlib.nullcontext(sys.stdout) if out == "-" else write_atomically(out) as file:
            async for entry in selection.entries(producer):
                line = {**described(entry), "envelope": base64.b64encode(entry.payload).decode()}
                file.write(one_json_line(line) + "\n")
                count += 1
    if out != "-":
        session.answer({"queue": where, "exported": count, "file": out}, lambda: f"{count:,} written to {out}")


def letters(count: int) -> str:
    """So many, in words."""
    return "1 dead letter" if count == 1 else f"{count:,} dead letters"


def _table(found: list[DlqEntry], total: int) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

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
        table.add_row(*cells, brief(shown, 120))
    reasons = Counter(entry.reason for entry in found)
    tally = ", ".join(f"{count:,} {brief(reason)}" for reason, count in reasons.most_common())
    return Group(table, f"{len(found):,} of {total:,} shown: {tally}")
