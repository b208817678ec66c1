"""`chasqui result`: what a job's handler returned."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer

from chasqui_engine import ChasquiError, JobAbortedError, JobExpiredError, JobFailedError, JobInfo, JobState, Producer
from chasqui_engine.cli.commands.add import show_result
from chasqui_engine.cli.input.params import IdArguments, QueueOption, parse_duration_ms, queue_and_one
from chasqui_engine.cli.session import NOT_THERE, OUT_OF_TIME, Session, command, fail
from chasqui_engine.codec import decode_payload


def register(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "result", rich_help_panel="Work")(result)


async def result(
    session: Session,
    words: IdArguments,
    queue: QueueOption = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is there.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait.")] = "30s",
) -> None:
    """Show what a job's handler returned.

    Exit code 1: the job died; 3: there is no result; 124: timed out.
    """
    name, job_id = queue_and_one(words, queue, "ID")
    async with session.producer(name) as producer:
        if wait:
            value = await _wait_for_result(producer, name, job_id, parse_duration_ms(timeout) / 1000)
        else:
            stored = await producer.get_result(job_id)
            if stored is None:
                _fail_without_result(await producer.get_job(job_id, whole=True), name)
            value = decode_payload(stored)
    session.answer({"id": job_id, "result": value}, lambda: show_result(value))


async def _wait_for_result(producer: Producer, queue: str, job_id: str, timeout_s: float) -> Any:
    try:
        return await producer.wait_for_result(job_id, timeout_s)
    except TimeoutError:
        info = await producer.get_job(job_id, whole=True)
        if info.state is JobState.UNKNOWN:
            _fail_unknown(job_id, queue, OUT_OF_TIME)
        fail(
            f"no result of job {job_id}, which is {info.state}, within {timeout_s:g} s",
            "run the command again to go on waiting, or wait longer with --timeout",
            code=ChasquiError.code,
            exit_code=OUT_OF_TIME,
        )


def _fail_without_result(info: JobInfo, queue: str) -> NoReturn:
    errors = {JobState.DEAD: JobFailedError, JobState.ABORTED: JobAbortedError, JobState.EXPIRED: JobExpiredError}
    if error := errors.get(info.state):
        raise error(info.id, info.reason or "unknown reason", info.last_error, info.attempt or 0)
    if info.state is JobState.UNKNOWN:
        _fail_unknown(info.id, queue, NOT_THERE)
    steps = {JobState.COMPLETED: "run the worker with --store-results, and ask within an hour"}
    fail(
        f"there is no result of job {info.id}, which is {info.state}",
        steps.get(info.state, "wait for it with --wait, and run the worker with --store-results"),
        code="CMQ-312",
        exit_code=NOT_THERE,
    )


def _fail_unknown(job_id: str, queue: str, exit_code: int) -> NoReturn:
    fail(
        f"job {job_id} is unknown in queue {queue}",
        "check the id and the queue; jobs that ended long ago are forgotten",
        code="CMQ-312",
        exit_code=exit_code,
    )
