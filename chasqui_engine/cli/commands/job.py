"""`chasqui job`: the state and history of one job, and removing and aborting jobs."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from chasqui_engine import JobInfo, JobState, Producer
from chasqui_engine.admin import AbortState
from chasqui_engine.cli.input.params import (
    GroupOption,
    IdArguments,
    QueueOption,
    parse_duration_ms,
    queue_and_one,
    queue_and_rest,
)
from chasqui_engine.cli.output.formatting import ago, brief
from chasqui_engine.cli.output.letter_blocks import traceback_lines
from chasqui_engine.cli.output.terminal import one_line
from chasqui_engine.cli.session import FAILED, NOT_THERE, Session, command
from chasqui_engine.codec import decode_payload
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.durations import iso

_LOG_LINES = 10
"""Of the log, in the story of a job."""


class _ShowByDefault(TyperGroup):
    """`chasqui job ID` is `chasqui job show ID`."""

    default_command = "show"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words, with the command that is meant."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(
        no_args_is_help=True,
        cls=_ShowByDefault,
        help="One job: show (chasqui job ID does the same), logs, remove, abort.",
    )
    command(group, "show")(show)
    command(group, "logs")(logs)
    command(group, "remove")(remove)
    command(group, "abort")(abort)
    app.add_typer(group, name="job", rich_help_panel="Inspect")


async def show(session: Session, words: IdArguments, queue: QueueOption = None, group: GroupOption = "default") -> int:
    """Show a job: its state, runs, worker, times, progress, last error, traceback, result and last lines of log.

    Exit code 3: the job is unknown.
    """
    name, job_id = queue_and_one(words, queue, "ID")
    async with session.producer(name) as producer:
        info = await producer.get_job(job_id, group=group, whole=True)
        stored = await producer.get_result(job_id) if info.state is JobState.COMPLETED else None
        lines, count = await producer.get_job_logs(job_id, end=_LOG_LINES - 1, asc=False)
        limit = await _read_limit(producer, info, group)
    # Field by field: a payload may be nested deeper than a copy of it can be made.
    facts: dict[str, Any] = {one.name: getattr(info, one.name) for one in fields(info)}
    if stored is not None:
        facts["result"] = decode_payload(stored)
    facts |= {"log": lines[::-1], "log_lines": count, "max_attempts": limit}
    session.answer(facts, lambda: "\n".join([_describe(info, facts), *_describe_log(facts, name)]))
    return NOT_THERE if info.state is JobState.UNKNOWN else 0


async def _read_limit(producer: Producer, info: JobInfo, group: str) -> int | None:
    """How many runs it has in all: its own limit, else that of the workers that live."""
    if info.max_attempts is not None or info.state not in (JobState.ACTIVE, JobState.FAILED):
        return info.max_attempts
    workers = (await producer.snapshot(group=group, events=1)).consumers
    return max((one.max_attempts or 0 for one in workers if one.alive), default=0) or None


async def logs(
    session: Session,
    words: IdArguments,
    queue: QueueOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="The newest lines, at most this many.")] = 1000,
) -> int:
    """Show what handlers wrote to a job's log, the oldest line first.

    Exit code 3: there is no log.
    """
    name, job_id = queue_and_one(words, queue, "ID")
    async with session.producer(name) as producer:
        lines, count = await producer.get_job_logs(job_id, end=limit - 1, asc=False)
    lines.reverse()
    session.answer({"job": job_id, "lines": lines, "count": count}, lambda: "\n".join(map(one_line, lines)))
    return 0 if count else NOT_THERE


async def remove(
    session: Session, words: IdArguments, queue: QueueOption = None, group: GroupOption = "default"
) -> int:
    """Delete jobs wherever they are: waiting, delayed, dead, or as a result. A running job is left alone.

    Exit code 1: a job runs; 3: a job is unknown.
    """
    name, job_ids = queue_and_rest(words, queue, "ID")
    async with session.producer(name) as producer:
        reports = {job_id: await producer.remove_report(job_id, group=group) for job_id in job_ids}
    lines = [f"{brief(job_id, 1024)}: {_describe_removal(report)}" for job_id, report in reports.items()]
    session.answer([{"id": job_id, **report} for job_id, report in reports.items()], lambda: "\n".join(lines))
    if any(report["active"] for report in reports.values()):
        return FAILED
    return 0 if all(any(report.values()) for report in reports.values()) else NOT_THERE


async def abort(
    session: Session,
    words: IdArguments,
    queue: QueueOption = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="How long to wait until a running job has stopped.")
    ] = "5s",
    group: GroupOption = "default",
) -> int:
    """Stop jobs wherever they are: those that wait or are delayed do not run, a running one is stopped by its worker.

    Exit code 1: a job runs on, though it is to stop; 3: a job is unknown, or has ended.
    """
    name, job_ids = queue_and_rest(words, queue, "ID")
    timeout_s = parse_duration_ms(timeout) / 1000
    async with session.producer(name) as producer:
        states = await asyncio.gather(*(producer.abort(one, timeout=timeout_s, group=group) for one in job_ids))
    lines = [f"{brief(job_id, 1024)}: {_ABORTS[state]}" for job_id, state in zip(job_ids, states, strict=True)]
    answer = [{"id": job_id, "state": state} for job_id, state in zip(job_ids, states, strict=True)]
    session.answer(answer, lambda: "\n".join(lines))
    if "requested" in states:
        return FAILED
    return NOT_THERE if "gone" in states else 0


_ABORTS: dict[AbortState, str] = {
    "removed": "removed, it had not begun",
    "aborted": "aborted, its worker has stopped it",
    "requested": "requested, its worker has not stopped it yet",
    "gone": "not found, or it has ended",
}


def _describe_removal(report: dict[str, bool]) -> str:
    if report["active"]:
        return "running, left alone"
    places = {"delayed": "delayed jobs", "stream": "waiting jobs", "dlq": "dead letters", "result": "results"}
    found = [place for key, place in places.items() if report[key]]
    return f"removed from the {' and the '.join(found)}" if found else "not found"


def _describe(info: JobInfo, known: dict[str, Any]) -> str:
    facts = {
        "job": brief(info.id, 1024),
        "state": str(info.state),
        "name": brief(info.name) or None,
        "runs": _describe_runs(info, known["max_attempts"]),
        "worker": None if info.consumer is None else brief(info.consumer, 200),
        "progress": None if info.progress is None else brief(info.progress),
        "reason": None if info.reason is None else brief(info.reason, 200),
        "last error": None if info.last_error is None else brief(info.last_error, 2000),
        "next run" if info.attempt else "runs at": _describe_time(info.run_at_ms),
        "created": _describe_time(info.created_at_ms),
        "started": _describe_time(info.started_at_ms),
        "ended": _describe_time(info.ended_at_ms),
        "duration": None if info.duration_ms is None else ago(info.duration_ms),
        "result": brief(known["result"], 2000) if "result" in known else None,
        "payload": None if info.payload is None else brief(info.payload, 500),
    }
    lines = [f"{label:<11}{value}" for label, value in facts.items() if value is not None]
    return "\n".join([*lines, *traceback_lines(info.traceback)])


def _describe_log(known: dict[str, Any], queue: str) -> list[str]:
    lines, count = known["log"], known["log_lines"]
    if not lines:
        return []
    rest = f", the last {len(lines)} of {count:,}; chasqui job logs {known['id']} -q {queue}"
    return [f"log{rest if count > len(lines) else ''}", *(f"  {one_line(line)}" for line in lines)]


def _describe_runs(info: JobInfo, limit: int | None) -> str | None:
    if info.attempt is None:
        return None
    return f"{info.attempt}" if limit is None else f"{info.attempt} of {limit}"


def _describe_time(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    from_now_ms = at_ms - now_ms()
    return f"{iso(at_ms)} ({f'in {ago(from_now_ms)}' if from_now_ms > 0 else f'{ago(-from_now_ms)} ago'})"
