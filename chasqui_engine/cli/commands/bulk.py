"""`chasqui bulk`: adds a job per row of a file; run again after an interruption, it adds the missing ones."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import typer

from chasqui_engine import AddOptions, ChasquiError, ConfigError, EncodeError
from chasqui_engine.cli.bulk.batches import batches_of
from chasqui_engine.cli.bulk.progress_bar import Bar, open_bar
from chasqui_engine.cli.bulk.rows import BadRowError, BrokenSourceError, Row
from chasqui_engine.cli.bulk.sender import Sending
from chasqui_engine.cli.bulk.sources import Source
from chasqui_engine.cli.input.params import QueueOption, check_delay, parse_duration_ms, require_queue
from chasqui_engine.cli.input.prompt import interruptible
from chasqui_engine.cli.session import FAILED, INTERRUPTED, Failure, Session, command, failure_of, report
from chasqui_engine.codec import encode_payload
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.values.job import Addition, Moment

_AGAIN = "run the same command again: it adds what is missing"
_ALL_AGAIN = "note that with --no-resume a second run adds all rows again"


@dataclass(frozen=True, slots=True)
class _Job:
    """How rows become jobs."""

    name: str
    name_field: str | None
    id_field: str | None
    run: str
    unique: bool

    @property
    def again(self) -> str:
        """What to do after an interruption."""
        return _AGAIN if self.unique or self.id_field else _ALL_AGAIN

    def make(self, row: Row, source: Source) -> Addition:
        """The job of a row."""
        try:
            encode_payload(row.data)
            return row.data, self._options(row)
        except (ConfigError, EncodeError, BadRowError) as err:
            raise BadRowError(f"{source.locate(row.number)} {err.args[0]}") from err

    def _options(self, row: Row) -> AddOptions:
        name = str(self._field(row, self.name_field)) if self.name_field else self.name
        if self.id_field:
            return AddOptions(id=str(self._field(row, self.id_field)), name=name)
        options = AddOptions(name=name)
        if not self.unique:
            return options
        # The same row of the same file is the same job, however often it is sent.
        mark = hashlib.sha256(f"{self.run}\0{name}\0{row.number}\0".encode() + row.raw).hexdigest()[:24]
        return replace(options, id=f"bulk-{mark}")

    def _field(self, row: Row, name: str) -> Any:
        if not isinstance(row.data, dict) or row.data.get(name) in (None, ""):
            raise BadRowError(f"has no field {name!r}")
        return row.data[name]


@dataclass(slots=True)
class _Outcome:
    """The outcome."""

    read: int = 0
    bad: int = 0
    first_bad: str | None = None
    failure: Failure | None = None
    """Why it stopped before the last row."""


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "bulk", rich_help_panel="Work")(bulk)


async def bulk(
    session: Session,
    path: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, CSV or Parquet; - is stdin.")],
    queue: QueueOption = None,
    name: Annotated[str, typer.Option("--name", "-n", help="The name of the jobs.")] = "",
    kind: Annotated[
        str | None,
        typer.Option("--format", metavar="jsonl|csv|parquet", help="By default from the file's extension."),
    ] = None,
    name_field: Annotated[str | None, typer.Option("--name-field", help="Take the job's name from this field.")] = None,
    id_field: Annotated[str | None, typer.Option("--id-field", help="Take the job's id from this field.")] = None,
    delay: Annotated[str | None, typer.Option("--delay", metavar="TIME", help="Run the jobs later: 10s, 5m.")] = None,
    run: Annotated[str, typer.Option("--run", help="A label; a new one adds the same file again.")] = "",
    resume_within: Annotated[
        str, typer.Option("--resume-within", metavar="TIME", help="How long a re-run recognises added rows.")
    ] = "1d",
    unique: Annotated[bool, typer.Option("--resume/--no-resume", help="Add only missing rows when run again.")] = True,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip rows that cannot be read.")] = False,
) -> int:
    """Add a job for every row of a file.

    Each job's id is made of the row's number and content, so a re-run after an interruption adds only missing rows.
    """
    where, jobs = require_queue(None, queue, "default"), _Job(name, name_field, id_field, run, unique)
    AddOptions(name=name)  # checks the name before a row is read
    moment = None if delay is None else Moment(True, parse_duration_ms(delay))
    check_delay(0 if moment is None else moment.ms)
    ttl_s = max(1, parse_duration_ms(resume_within) // 1000)
    with interruptible():
        source = Source(path, kind)
    outcome, started = _Outcome(), monotonic()
    async with session.producer(where, dedup_ttl_secs=ttl_s) as producer:
        sending = Sending(producer, moment)
        with open_bar(session) as bar:
            try:
                await _send_all(sending, source, jobs, outcome, bar, skip_bad)
            except asyncio.CancelledError:
                outcome.failure = Failure("stopped before the end", "CMQ-005", jobs.again, INTERRUPTED)
            except ChasquiError as err:
                failure = failure_of(err)
                outcome.failure = replace(failure, next_step=f"{failure.next_step}; then {jobs.again}")
            finally:
                await sending.settle()
        return _report(session, outcome, sending, monotonic() - started, where)


async def _send_all(
    sending: Sending, source: Source, jobs: _Job, outcome: _Outcome, bar: Bar | None, skip_bad: bool
) -> None:
    async for rows in batches_of(source):
        batch = _additions(rows, source, jobs, outcome, skip_bad)
        if batch:
            await sending.send(batch)
        if bar is not None:
            position = next((row.position for row in reversed(rows) if isinstance(row, Row)), None)
            bar.update(position, source.total, outcome.read, sending.added)
        if outcome.failure is not None:
            break
    await sending.drain()
    if bar is not None and outcome.failure is None:
        bar.update(source.total or outcome.read, source.total, outcome.read, sending.added)


def _additions(
    rows: Sequence[Row | BadRowError], source: Source, jobs: _Job, outcome: _Outcome, skip_bad: bool
) -> list[Addition]:
    """The jobs of these rows, up to the first error that stops the command."""
    found: list[Addition] = []
    for row in rows:
        try:
            if isinstance(row, BadRowError):
                raise row
            found.append(jobs.make(row, source))
            outcome.read += 1
        except BadRowError as err:
            outcome.bad += 1
            outcome.first_bad = outcome.first_bad or str(err)
            if isinstance(err, BrokenSourceError) or not skip_bad:
                way_out = "" if isinstance(err, BrokenSourceError) else ", or pass --skip-bad,"
                outcome.failure = Failure(str(err), "CMQ-004", f"correct it{way_out} and {jobs.again}", FAILED)
                break
    return found


def _report(session: Session, outcome: _Outcome, sending: Sending, seconds: float, queue: str) -> int:
    added, failure = sending.added, outcome.failure
    there = max(0, sending.confirmed - added)
    facts = {"queue": queue, "rows": outcome.read, "added": added, "already_there": there, "bad": outcome.bad}
    session.answer(
        {**facts, "seconds": round(seconds, 2), "complete": failure is None},
        lambda: (
            f"{added:,} jobs added to {queue} in {seconds:.1f} s"
            + (f", {there:,} existed already" if there else "")
            + (f", {outcome.bad:,} rows skipped; the first: {outcome.first_bad}" if outcome.bad else "")
        ),
    )
    return 0 if failure is None else report(failure, ["--json"] if session.as_json else [])
