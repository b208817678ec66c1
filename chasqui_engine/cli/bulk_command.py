"""`chasqui bulk`: a file of rows, each a job; stopped half-way, the same command goes on where it was."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chasqui_engine.cli.bulk_sources import BadRowError, Row, Source
from chasqui_engine.cli.session import FAILED, INTERRUPTED, Failure, Session, command, report
from chasqui_engine.cli.words import duration_ms
from chasqui_engine.clock import monotonic
from chasqui_engine.enqueue import Addition, Moment
from chasqui_engine.job import AddOptions
from chasqui_engine.producer import Producer

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_BATCH = 1000
_IN_FLIGHT = 4


@dataclass(slots=True)
class _Job:
    """How rows become jobs."""

    name: str
    name_field: str | None
    id_field: str | None
    run: str
    unique: bool

    def of(self, row: Row) -> Addition:
        """The job of a row."""
        name = str(self._field(row, self.name_field)) if self.name_field else self.name
        if self.id_field:
            return row.data, AddOptions(id=str(self._field(row, self.id_field)), name=name)
        if not self.unique:
            return row.data, AddOptions(name=name)
        # The same row of the same file is the same job, however often it is sent.
        mark = hashlib.sha256(f"{self.run}\0{name}\0{row.number}\0".encode() + row.raw).hexdigest()[:24]
        return row.data, AddOptions(id=f"bulk-{mark}", name=name)

    def _field(self, row: Row, name: str) -> Any:
        if not isinstance(row.data, dict) or row.data.get(name) in (None, ""):
            raise BadRowError(f"row {row.number} has no field {name!r}")
        return row.data[name]


@dataclass(slots=True)
class _Outcome:
    """How it went."""

    read: int = 0
    bad: int = 0
    first_bad: str | None = None
    done: bool = False
    sending: set[asyncio.Task[Any]] = field(default_factory=set)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "bulk", rich_help_panel="Work")(bulk)


async def bulk(
    session: Session,
    path: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, CSV or Parquet; - is stdin.")],
    queue: Annotated[str, typer.Option("--queue", "-q", metavar="NAME", help="The queue.")] = "default",
    name: Annotated[str, typer.Option("--name", "-n", help="The jobs' name.")] = "",
    kind: Annotated[
        str | None, typer.Option("--format", metavar="jsonl|csv|parquet", help="By the file's ending, if not given.")
    ] = None,
    name_field: Annotated[str | None, typer.Option("--name-field", help="Take the name from this field.")] = None,
    id_field: Annotated[str | None, typer.Option("--id-field", help="Take the job's id from this field.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="TIME", help="Run all of them later.")] = None,
    run: Annotated[str, typer.Option("--run", help="A label: another one adds the same file once more.")] = "",
    resume_within: Annotated[
        str, typer.Option("--resume-within", metavar="TIME", help="How long a re-run knows what it added.")
    ] = "1d",
    unique: Annotated[bool, typer.Option("--resume/--no-resume", help="Re-runs add only what is missing.")] = True,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Go on after a row that cannot be read.")] = False,
) -> int:
    """Add a job for every row of a file.

    Each row's id is made of its number and content. A re-run after a break therefore adds only what is missing.
    """
    source, jobs = Source(path, kind), _Job(name, name_field, id_field, run, unique)
    moment = None if delay is None else Moment(True, duration_ms(delay))
    ttl_s = max(1, duration_ms(resume_within) // 1000)
    outcome, started = _Outcome(), monotonic()
    async with session.producer(queue, dedup_ttl_secs=ttl_s) as producer:
        with _bar(session) as bar:
            try:
                await _send_all(producer, source, jobs, moment, outcome, bar, skip_bad)
                outcome.done = True
            except asyncio.CancelledError:
                await asyncio.gather(*outcome.sending, return_exceptions=True)
            finally:
                for task in outcome.sending:
                    task.cancel()
        return _tell(session, outcome, producer.added, monotonic() - started, queue, skip_bad)


async def _send_all(
    producer: Producer,
    source: Source,
    jobs: _Job,
    moment: Moment | None,
    outcome: _Outcome,
    bar: _Bar | None,
    skip_bad: bool,
) -> None:
    for batch, position in _batches(source, jobs, outcome, skip_bad):
        if len(outcome.sending) >= _IN_FLIGHT:
            ended, outcome.sending = await asyncio.wait(outcome.sending, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        moments = [moment] * len(batch)
        work = producer.add_now(batch) if moment is None else producer.add_later(batch, moments)
        outcome.sending.add(asyncio.create_task(work))
        # Lets what was just made leave, and a Ctrl-C be heard.
        await asyncio.sleep(0)
        if bar is not None:
            bar.at(position, source.total, outcome.read, producer.added)
    await asyncio.gather(*outcome.sending)
    outcome.sending = set()
    if bar is not None:
        bar.at(source.total or outcome.read, source.total, outcome.read, producer.added)


def _batches(source: Source, jobs: _Job, outcome: _Outcome, skip_bad: bool) -> Iterator[tuple[list[Addition], int]]:
    batch: list[Addition] = []
    position = 0
    for row in source.rows():
        try:
            if isinstance(row, BadRowError):
                raise row
            batch.append(jobs.of(row))
        except BadRowError as err:
            outcome.bad += 1
            outcome.first_bad = outcome.first_bad or str(err)
            if skip_bad:
                continue
            if batch:
                yield batch, position
            return
        outcome.read += 1
        position = row.position
        if len(batch) >= _BATCH:
            yield batch, position
            batch = []
    if batch:
        yield batch, position


class _Bar:
    """A progress bar with rate and time left."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._started = monotonic()

    def at(self, position: int, total: int | None, rows: int, added: int) -> None:
        """So far."""
        rate = rows / max(monotonic() - self._started, 0.001)
        self._progress.update(
            self._task,
            completed=position,
            total=total,
            rows=f"{rows:,} rows",
            rate=f"{rate:,.0f}/s",
            new=f"{added:,} new",
        )


@contextlib.contextmanager
def _bar(session: Session) -> Iterator[_Bar | None]:
    if session.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[rows]}"))
    columns += (TextColumn("{task.fields[new]}"), TextColumn("{task.fields[rate]}"))  # type: ignore[assignment]
    progress = Progress(*columns, TextColumn("left"), TimeRemainingColumn(), console=Console(stderr=True))
    with progress:
        yield _Bar(progress, progress.add_task("", total=None, rows="", rate="", new=""))


def _tell(session: Session, outcome: _Outcome, added: int, seconds: float, queue: str, skip_bad: bool) -> int:
    there = max(0, outcome.read - added)
    facts = {"queue": queue, "rows": outcome.read, "added": added, "already_there": there, "bad": outcome.bad}
    stopped = not outcome.done
    session.answer(
        {**facts, "seconds": round(seconds, 2), "complete": outcome.done},
        lambda: (
            f"{added:,} jobs added to {queue} in {seconds:.1f} s"
            + (f", {there:,} were there already" if there and outcome.done else "")
            + (f", {outcome.bad:,} rows left out, the first because {outcome.first_bad}" if outcome.bad else "")
        ),
    )
    again = "run the same command again: it adds what is missing"
    as_asked = ["--json"] if session.as_json else []
    if stopped:
        return report(Failure("stopped before the end", "CMQ-005", again, INTERRUPTED), as_asked)
    if outcome.first_bad is not None and not skip_bad:
        return report(
            Failure(outcome.first_bad, "CMQ-003", f"correct it, or pass --skip-bad, and {again}", FAILED), as_asked
        )
    return 0
