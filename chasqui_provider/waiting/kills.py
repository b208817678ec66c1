"""What becomes of jobs whose waiting task is killed, failed or cleared."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, get_args

from chasqui_engine import ChasquiError, Queue
from chasqui_provider.connection.settings import Settings

OnKill = Literal["abort", "cancel", "leave"]
"""`abort`: the job is stopped wherever it is. `cancel`: it is taken away if it is still delayed. `leave`: nothing."""

Log = Any
"""A logger of Airflow's or of the standard library."""

_ABORT_S = 3.0
"""How long to wait for a worker to stop its job: Airflow waits five seconds before it kills the task itself."""
_TOLD = {
    "removed": "was aborted before it began",
    "aborted": "was aborted",
    "requested": "is to be aborted, and its worker has not confirmed it yet",
    "gone": "was not aborted: it has ended",
}


def check_on_kill(on_kill: str | None, cancel_on_kill: bool | None = None) -> OnKill | None:
    """Validates `on_kill`; None if neither it nor its old name was given."""
    if cancel_on_kill is not None:
        same: OnKill = "cancel" if cancel_on_kill else "leave"
        text = f"cancel_on_kill={cancel_on_kill} is deprecated: write on_kill={same!r}, or leave both out to abort jobs"
        warnings.warn(text, DeprecationWarning, stacklevel=4)
        if on_kill is not None:
            raise ValueError("give on_kill or cancel_on_kill, not both")
        return same
    if on_kill is not None and on_kill not in get_args(OnKill):
        raise ValueError(f"on_kill must be 'abort', 'cancel' or 'leave', got {on_kill!r}")
    return on_kill  # type: ignore[return-value]


async def end_jobs(queue: Queue, job_ids: Sequence[str], on_kill: OnKill, log: Log) -> None:
    """Does with the jobs of a killed task what `on_kill` says."""
    if on_kill == "leave":
        return
    end = _abort if on_kill == "abort" else _cancel
    await asyncio.gather(*(end(queue, job_id, log) for job_id in job_ids))


def end_jobs_now(settings: Settings, queue_name: str | None, job_ids: Sequence[str], on_kill: OnKill, log: Log) -> None:
    """The same for a task, whose `on_kill` is called by a signal: perhaps in the middle of a running event loop."""

    async def end() -> None:
        async with Queue(settings.name_of(queue_name), redis_url=settings.url, **settings.queue_options) as queue:
            await end_jobs(queue, job_ids, on_kill, log)

    if on_kill != "leave" and job_ids:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, end()).result()


async def _abort(queue: Queue, job_id: str, log: Log) -> None:
    try:
        state = await queue.abort(job_id, timeout=_ABORT_S)
    except ChasquiError as err:  # the user may not: it takes more rights than adding
        log.warning("job %s was not aborted, only cancelled if it is still delayed: %s", job_id, err)
        await _cancel(queue, job_id, log)
    else:
        log.info("job %s %s", job_id, _TOLD[state])


async def _cancel(queue: Queue, job_id: str, log: Log) -> None:
    cancelled = await queue.cancel_delayed(job_id)
    log.info("job %s %s", job_id, "was cancelled" if cancelled else "was not cancelled: it is no longer delayed")
