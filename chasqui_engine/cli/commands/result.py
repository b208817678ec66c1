"""`chasqui result` and `chasqui job`: what became of one job."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, NoReturn

import typer

from chasqui_engine.admin.job_lookup import JobInfo, JobState
from chasqui_engine.cli.commands.add import show_result
from chasqui_engine.cli.formatting import brief
from chasqui_engine.cli.params import GroupOption, QueueOption, parse_duration_ms, queue_and_one
from chasqui_engine.cli.session import NOT_THERE, OUT_OF_TIME, Session, command, fail
from chasqui_engine.codec import decode_payload
from chasqui_engine.durations import iso
from chasqui_engine.errors import JobFailedError
from chasqui_engine.producer import Producer

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
    name, job_id = queue_and_one(words, queue, "ID")
    async with session.producer(name) as producer:
        if wait:
            value = await _waited_for(producer, name, job_id, parse_duration_ms(timeout) / 1000)
        else:
            stored = await producer.get_result(job_id)
            if stored is None:
                _no_result(await producer.get_job(job_id, whole=True), name)
            value = decode_payload(stored)
    session.answer({"id": job_id, "result": value}, lambda: show_result(value))


async def _waited_for(producer: Producer, queue: str, job_id: str, timeout_s: float) -> Any:
    try:
        return await producer.wait_for_result(job_id, timeout_s)
    except TimeoutError:
        info = await producer.get_job(job_id, whole=True)
        if info.state is JobState.UNKNOWN:
            _nothing_known(job_id, queue, OUT_OF_TIME)
        raise


def _no_result(info: JobInfo, queue: str) -> NoReturn:
    if info.state is JobState.DEAD:
        raise JobFailedError(info.id, info.reason or "nobody remembers why", info.last_error, info.attempt or 0)
    if info.state is JobState.UNKNOWN:
        _nothing_known(info.id, queue, NOT_THERE)
    steps = {JobState.COMPLETED: "run the worker with --store-results, and ask within an hour"}
    fail(
        f"there is no result of job {info.id}, which is {info.state}",
        steps.get(info.state, "wait for it with --wait, and run the worker with --store-results"),
        code="CMQ-008",
        exit_code=NOT_THERE,
    )


def _nothing_known(job_id: str, queue: str, exit_code: int) -> NoReturn:
    fail(
        f"nothing is known of a job {job_id} in queue {queue}",
        "check the id and the queue; what ended long ago is forgotten",
        code="CMQ-008",
        exit_code=exit_code,
    )


async def job(session: Session, words: IdArguments, queue: QueueOption = None, group: GroupOption = "default") -> int:
    """Show where a job is: its state, its runs, its last error. Exit code 3: nothing is known of it."""
    name, job_id = queue_and_one(words, queue, "ID")
    async with session.producer(name) as producer:
        info = await producer.get_job(job_id, group=group, whole=True)
    # Field by field: what a job holds may be nested deeper than a copy of it can be made.
    session.answer({one.name: getattr(info, one.name) for one in fields(info)}, lambda: _described(info))
    return NOT_THERE if info.state is JobState.UNKNOWN else 0


def _described(info: JobInfo) -> str:
    facts = {
        "job": brief(info.id, 1024),
        "state": str(info.state),
        "name": brief(info.name) or None,
        "runs": info.attempt,
        "worker": None if info.consumer is None else brief(info.consumer, 200),
        "progress": None if info.progress is None else brief(info.progress),
        "reason": None if info.reason is None else brief(info.reason, 200),
        "last error": None if info.last_error is None else brief(info.last_error, 2000),
        "runs at": None if info.run_at_ms is None else iso(info.run_at_ms),
        "created": None if info.created_at_ms is None else iso(info.created_at_ms),
        "payload": None if info.payload is None else brief(info.payload, 500),
    }
    return "\n".join(f"{label:<11}{value}" for label, value in facts.items() if value is not None)
