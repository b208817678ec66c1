"""The verdict on a job, as a value: retry or bury. `settlement` carries it out."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine.backoff import RetryConfig, backoff_ms
from chasqui_engine.errors import EncodeError, UnrecoverableError
from chasqui_engine.job import DlqReason, Job

MAX_DETAIL_CHARS = 2000
"""Of an error's type and text, in the dead letters."""
MAX_ERROR_CHARS = 500
"""Of an error's text, in an event."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Run it again after a while."""

    backoff_ms: int


@dataclass(frozen=True, slots=True)
class Bury:
    """Do not run it again."""

    reason: DlqReason


Verdict = Retry | Bury


def judge_failure(job: Job, runs_made: int, error: BaseException, allowed: int, retry: RetryConfig) -> Verdict:
    """After run number `runs_made` of those that are `allowed` failed with `error`."""
    if isinstance(error, UnrecoverableError | EncodeError):
        return Bury(DlqReason.unrecoverable(describe(error)))
    if runs_made >= allowed:
        return Bury(DlqReason.retries_exhausted(describe(error)))
    return Retry(backoff_ms(runs_made, job.retry.backoff if job.retry else None, retry))


def allowed_runs(job: Job, max_attempts: int) -> int:
    """Runs in all: the job's own number, or the worker's."""
    if job.retry is not None and job.retry.max_attempts is not None:
        return job.retry.max_attempts
    return max_attempts


def runs_begun(job: Job, deliveries: int, allowed: int) -> int:
    """Runs that a job had before it was given out this time, as far as can be known.

    The server counts that it was given out. The worker counts the run before it begins it, but only where it matters:
    a run that is the last, and any after a worker went silent. So the first delivery may stand for a run that nobody
    counted; unless that run was the last, for then it was counted, or never begun.
    """
    uncounted = min(deliveries, 1) if allowed - job.attempt > 1 else 0
    return job.attempt + uncounted + max(0, deliveries - 1)


def must_be_counted(job: Job, deliveries: int, allowed: int) -> bool:
    """Whether a run has to be counted before it begins."""
    return deliveries > 0 or allowed - job.attempt <= 1


def describe(error: BaseException) -> str:
    """Type and text of an error."""
    return f"{type(error).__name__}: {_text(error)}"[:MAX_DETAIL_CHARS]


def brief(error: BaseException) -> str:
    """Text of an error, or its type where it has none."""
    return (_text(error) or type(error).__name__)[:MAX_ERROR_CHARS]


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as err:  # noqa: BLE001 - an error that cannot say what it is must not cost the job its end
        return f"(its __str__ raised {type(err).__name__})"
    # Half a surrogate pair cannot be sent.
    return text.encode(errors="replace").decode()
