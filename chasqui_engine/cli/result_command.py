"""`chasqui result` and `chasqui job`: what became of one job."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from chasqui_engine.cli.add_command import shown
from chasqui_engine.cli.session import NOT_THERE, Session, command, fail
from chasqui_engine.cli.words import GroupOption, QueueOption, brief, duration_ms, queue_and_rest
from chasqui_engine.codec import decode_payload
from chasqui_engine.snapshot import JobInfo, JobState
from chasqui_engine.times import iso

IdArguments = Annotated[list[str], typer.Argument(metavar="ID", help="The job's id, with -q QUEUE; or QUEUE ID.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    command(app, "result", rich_help_panel="Work")(result)
    command(app, "job", rich_help_panel="Look")(job)


async def result(
    session: Session,
    words: IdArguments,
    queue: QueueOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "30s",
) -> None:
    """Show what a job's handler returned. Exit code 1: it died; 3: there is no result; 124: not in time."""
    name, [job_id, *_] = queue_and_rest(words, queue, "ID")
    async with session.producer(name) as producer:
        if wait:
            value = await producer.wait_for_result(job_id, duration_ms(timeout) / 1000)
        else:
            stored = await producer.get_result(job_id)
            if stored is None:
                info = await producer.get_job(job_id)
                fail(
                    f"there is no result of job {job_id}, which is {info.state}",
                    "wait for it with --wait, and run the worker with --store-results",
                    code="CMQ-008",
                    exit_code=NOT_THERE,
                )
            value = decode_payload(stored)
    session.answer({"id": job_id, "result": value}, lambda: shown(value))


async def job(session: Session, words: IdArguments, queue: QueueOption = None, group: GroupOption = "default") -> int:
    """Show where a job is: its state, its runs, its last error. Exit code 3: nothing is known of it."""
    name, [job_id, *_] = queue_and_rest(words, queue, "ID")
    async with session.producer(name) as producer:
        info = await producer.get_job(job_id, group=group)
    session.answer(asdict(info), lambda: _described(info))
    return NOT_THERE if info.state is JobState.UNKNOWN else 0


def _described(info: JobInfo) -> str:
    facts = {
        "job": brief(info.id, 1024),
        "state": str(info.state),
        "name": brief(info.name) or None,
        "runs": info.attempt,
        "worker": info.consumer,
        "progress": None if info.progress is None else brief(info.progress),
        "reason": info.reason,
        "last error": None if info.last_error is None else brief(info.last_error, 2000),
        "runs at": None if info.run_at_ms is None else iso(info.run_at_ms),
        "created": None if info.created_at_ms is None else iso(info.created_at_ms),
        "payload": None if info.payload is None else brief(info.payload, 500),
    }
    return "\n".join(f"{label:<11}{value}" for label, value in facts.items() if value is not None)
