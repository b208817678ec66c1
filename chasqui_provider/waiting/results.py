"""From how jobs ended to what a task returns or raises."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Literal

from chasqui_engine import ChasquiError, EncodeError, JobInfo, JobState, Queue, RedisError
from chasqui_provider.connection.settings import Settings
from chasqui_provider.conversion import to_airflow, to_json
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.triggers.payloads import outcomes_of
from chasqui_provider.version_compat import AirflowFailException
from chasqui_provider.waiting.outcome import COMPLETED, DEAD, Outcome, completed_outcome, expired_outcome
from chasqui_provider.waiting.shared_waits import Waits

_log = logging.getLogger(__name__)

_READ_TIMEOUT_S = 10.0
_NAMED = 5
"""At most this many jobs are described one by one in an error."""

OnDead = Literal["fail", "return"]

_READ_AT_ONCE = 20
"""Results read at a time; each may have a megabyte."""


class JobDeadError(AirflowFailException):
    """A job went to the dead letters. Retrying the task cannot help: the job's own retries are used up."""


class ResultExpiredError(AirflowFailException):
    """A job completed, but its result is missing or has expired."""


class ResultUnfitError(AirflowFailException):
    """A job completed, but Airflow cannot hold its result."""


class ChasquiUnavailableError(RuntimeError):
    """The server or the connection is at fault, not the job.

    Not an `AirflowException`: a resumed sensor with `soft_fail` would turn it into a skip.
    """


def check_on_dead(on_dead: str) -> OnDead:
    """Validates `on_dead`."""
    if on_dead not in ("fail", "return"):
        raise ValueError(f"on_dead must be 'fail' or 'return', got {on_dead!r}")
    return on_dead  # type: ignore[return-value]


def value_of(outcome: Outcome, on_dead: OnDead) -> Any:
    """The result of a job; raises the error with which the task fails."""
    job_id = to_json(outcome["job_id"])
    if outcome["status"] == COMPLETED:
        return _as_xcom(job_id, outcome["result"])
    if outcome["status"] == DEAD:
        if on_dead == "return":
            return {**outcome, "job_id": job_id}
        detail = f": {outcome['detail']}" if outcome.get("detail") else ""
        runs = f" after {outcome['attempt']} run(s)" if outcome["attempt"] else ""
        raise JobDeadError(
            f"job {job_id} is dead{runs} ({outcome['reason']}){detail}. To run it again: "
            "ChasquiReplayDlqOperator, or clear the task that added it, if it set no job_id"
        )
    raise ResultExpiredError(
        f"job {job_id} completed, but its result is not stored: it has expired, or its worker runs "
        "without store_results=True"
    )


def _as_xcom(job_id: str, result: Any) -> Any:
    try:
        return to_airflow(result)
    except EncodeError as err:
        raise ResultUnfitError(
            f"the result of job {job_id} {err.args[0]}: too much for an XCom. Read it where it is needed: "
            "ChasquiHook(…).get_queue(…).get_job_result(…), or let the handler return less"
        ) from err


def values_of(event: Any, on_dead: OnDead, hook: ChasquiHook, queue_name: str | None) -> list[Any]:
    """The results of a trigger's event, in the order of its ids; results not in the event are read from the server."""
    if not isinstance(event, dict) or "outcomes" not in event:
        raise ChasquiUnavailableError(str(event.get("error", event)) if isinstance(event, dict) else str(event))
    outcomes = list(outcomes_of(event))
    left = [one["job_id"] for one in outcomes if one["status"] == COMPLETED and "result" not in one]
    if left:
        stored = _read(hook, queue_name, left)
        outcomes = [stored.get(one["job_id"], one) for one in outcomes]
    if died := [one["job_id"] for one in outcomes if one["status"] == DEAD]:
        _log_tracebacks(hook, queue_name, died[:_NAMED])
    return [value_of(outcome, on_dead) for outcome in outcomes]


def _read(hook: ChasquiHook, queue_name: str | None, job_ids: Sequence[str]) -> dict[str, Outcome]:
    """Reads results from the server in chunks; None always fits into the event, so it is never read here."""
    outcomes: dict[str, Outcome] = {}
    with hook.get_queue(queue_name) as queue:
        for start in range(0, len(job_ids), _READ_AT_ONCE):
            page = job_ids[start : start + _READ_AT_ONCE]
            for job_id, result in zip(page, queue.get_job_result_bulk(page), strict=True):
                outcomes[job_id] = expired_outcome(job_id) if result is None else completed_outcome(job_id, result)
    return outcomes


def _log_tracebacks(hook: ChasquiHook, queue_name: str | None, job_ids: Sequence[str]) -> None:
    """Writes what handlers died of into the task's log."""
    try:
        with hook.get_queue(queue_name) as queue:
            traces = queue.get_tracebacks(job_ids)
    except ChasquiError as err:
        _log.info("the tracebacks of %d dead jobs cannot be read: %s", len(job_ids), err)
        return
    for job_id, trace in zip(job_ids, traces, strict=True):
        if trace is not None:
            _log.error("job %s died of this error in its worker:\n%s", to_json(job_id), trace)


def timeout_text(settings: Settings, queue_name: str | None, job_ids: Sequence[str], limit: str) -> str:
    """The text of a timeout: which jobs have not ended, and their states on the server."""
    name = settings.name_of(queue_name)
    which = f"job {job_ids[0]} has" if len(job_ids) == 1 else f"{len(job_ids) or 'the'} jobs have"

    async def read() -> list[str]:
        async with (
            asyncio.timeout(_READ_TIMEOUT_S),
            Queue(name, redis_url=settings.url, **settings.queue_options) as queue,
        ):
            return [_describe(await queue.get_job(job_id)) for job_id in job_ids[:_NAMED]]

    try:
        now = "; ".join(asyncio.run(read()))
    except RedisError as err:
        now = str(settings.name_in(err))
    except (ChasquiError, TimeoutError) as err:
        now = str(err) or "the server does not answer"
    return f"{which} not ended within {limit} on queue {name!r} of connection {settings.conn_id!r}: {now}"


def _describe(info: JobInfo) -> str:
    error = f", its last error is: {info.last_error}" if info.last_error else ""
    idle = " (is a worker running?)" if info.state is JobState.WAITING else ""
    return f"job {info.id} is {info.state}{error}{idle}"


def wait_now(
    settings: Settings,
    queue_name: str | None,
    job_ids: Sequence[str],
    *,
    timeout_s: float | None,
    on_dead: OnDead,
    since_ms: int = 0,
) -> list[Outcome]:
    """Waits until jobs end, from blocking code; raises `TimeoutError`."""

    async def wait() -> list[Outcome]:
        waits = Waits(settings, queue_name)
        try:
            async with asyncio.timeout(timeout_s):
                return await waits.wait_for_outcomes(job_ids, stop_at_death=on_dead == "fail", since_ms=since_ms)
        finally:
            await waits.close()

    return asyncio.run(wait())


def read_outcomes_now(
    settings: Settings, queue_name: str | None, job_ids: Sequence[str], *, on_dead: OnDead
) -> list[Outcome] | None:
    """How jobs have ended, from blocking code; None if some have not."""

    async def read() -> list[Outcome] | None:
        waits = Waits(settings, queue_name)
        try:
            return await waits.find_outcomes_by_now(job_ids, stop_at_death=on_dead == "fail")
        finally:
            await waits.close()

    return asyncio.run(read())
