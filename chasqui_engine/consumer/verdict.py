"""The verdict on a delivery, as a value: ack, retry, bury or drop. `settlement` carries it out.

Nothing here talks to Redis. An entry is judged twice: when it arrives, before any handler runs, and after a run failed.
"""

from __future__ import annotations

from collections.abc import Callable

from chasqui_engine._redis.commands.group import Delivery
from chasqui_engine._redis.commands.settle import Ack, Bury, Drop, DropKind, Retry
from chasqui_engine.codec.envelope import (
    decode_id,
    decode_job,
    decode_payload,
    encode_delayed,
    encode_failure,
    with_attempt,
)
from chasqui_engine.consumer.execution.traceback_text import traceback_text
from chasqui_engine.values.backoff import backoff_ms
from chasqui_engine.values.config import ConsumerConfig
from chasqui_engine.values.errors import DecodeError, EncodeError, UnrecoverableError
from chasqui_engine.values.job import DlqReason, Job
from chasqui_engine.values.packed import Packed
from chasqui_engine.values.retry_later import RetryLater
from chasqui_engine.values.stream_ids import ms_of
from chasqui_engine.values.validation import MAX_JOB_NAME_BYTES

__all__ = ["Ack", "Bury", "Drop", "Retry", "judge_arrival", "judge_failure"]

MAX_DETAIL_CHARS = 2000
"""Longest type and text of an error in the dead letters."""
MAX_ERROR_CHARS = 500
"""Longest text of an error in an event."""
MAX_ERROR_TYPE_CHARS = 200


def judge_arrival(delivery: Delivery, config: ConsumerConfig, now_ms: Callable[[], float]) -> Job | Bury | Drop:
    """The job in an entry, or what becomes of one that may not run. `now_ms` is the server's clock."""
    envelope = delivery.envelope
    if envelope is None:
        return _bury_unread(delivery, DlqReason.malformed("the entry has no field 'd'"))
    size, limit = len(envelope) + len(delivery.name), config.max_payload_bytes
    if size > limit:
        return _bury_unread(delivery, DlqReason.oversize_payload(f"{size} bytes, at most {limit} are accepted"))
    try:
        job = decode_job(envelope, delivery.name, Packed if config.packed else decode_payload)
    except DecodeError as err:
        return _bury_unread(delivery, DlqReason.decode_failed(str(err.args[0])))
    allowed = allowed_runs(job, config)
    begun = runs_begun(job, delivery.deliveries, allowed)
    if begun >= allowed:
        silent = "; the last worker went silent before it was done" if delivery.deliveries else ""
        detail = f"no run left after {begun}{silent}"
        return _bury_unread(delivery, DlqReason.retries_exhausted(detail), job.id, begun)
    job.deliveries = begun - job.attempt
    expires_ms = None if begun else expires_at_ms(delivery, config)
    return job if expires_ms is None or now_ms() < expires_ms else expire(delivery, job, config)


def judge_failure(
    delivery: Delivery, job: Job, attempt: int, error: BaseException, duration_us: int, config: ConsumerConfig
) -> Retry | Bury:
    """The verdict after run number `attempt` failed with `error`."""
    if isinstance(error, RetryLater) and not error.count:
        return _postpone(delivery, job, attempt - 1, error, duration_us)
    if isinstance(error, UnrecoverableError | EncodeError):
        reason = DlqReason.unrecoverable(describe(error))
    elif attempt >= allowed_runs(job, config):
        reason = DlqReason.retries_exhausted(describe(error))
    elif isinstance(error, RetryLater):
        return _postpone(delivery, job, attempt, error, duration_us)
    else:
        own = job.retry.backoff if job.retry else None
        pause_ms = backoff_ms(attempt, own or config.backoff, config.retry)
        member = encode_delayed(delivery.name, with_attempt(delivery.envelope or b"", attempt))
        return Retry(delivery, member, pause_ms, job.id, attempt, brief(error), duration_us, error_type=kind_of(error))
    trace = traceback_text(error)
    return _bury(delivery, reason, job.id, attempt, brief(error), duration_us, error_type=kind_of(error), trace=trace)


def _postpone(delivery: Delivery, job: Job, counted: int, wish: RetryLater, duration_us: int) -> Retry:
    """The verdict on a postponed job, for which `counted` runs count."""
    member = encode_delayed(delivery.name, with_attempt(delivery.envelope or b"", counted))
    return Retry(delivery, member, wish.delay_ms, job.id, counted, "", duration_us, wish.run_at_ms)


def expires_at_ms(delivery: Delivery, config: ConsumerConfig) -> float | None:
    """When a job that has not begun expires, by the server's clock; None is never."""
    if config.max_age_secs is None:
        return None
    return ms_of(delivery.entry_id.decode()) + config.max_age_secs * 1000


def expire(delivery: Delivery, job: Job, config: ConsumerConfig) -> Bury | Drop:
    """The end of a job that had not begun in time."""
    if config.dead_letter_expired:
        return _bury_unread(delivery, DlqReason.expired("it had not begun in time"), job.id)
    return drop(delivery, "expired", job.id, job.attempt + 1, None)


def drop(delivery: Delivery, kind: DropKind, job_id: str, attempt: int, duration_us: int | None) -> Drop:
    """The end of a job whose run `attempt` was stopped, or does not begin."""
    runs = attempt - (duration_us is None)
    return Drop(delivery, kind, job_id, attempt, duration_us, encode_failure(kind, None, runs))


def abort_unbegun(delivery: Delivery, config: ConsumerConfig) -> Drop | None:
    """The end of a job that is to be aborted and has not begun here; None if it is unreadable."""
    try:
        job = decode_job(delivery.envelope or b"", delivery.name, Packed)
    except DecodeError:
        return None
    begun = runs_begun(job, delivery.deliveries, allowed_runs(job, config))
    return drop(delivery, "aborted", job.id, begun + 1, None)


def _bury_unread(delivery: Delivery, reason: DlqReason, job_id: str | None = None, attempt: int = 0) -> Bury:
    """The burial of an entry for which no handler ran."""
    job_id = job_id or decode_id(delivery.envelope or b"")
    # Its fields are written several times, so they are cut.
    delivery.name = delivery.name[:MAX_JOB_NAME_BYTES]
    return _bury(delivery, reason, job_id, attempt, (reason.detail or "")[:MAX_ERROR_CHARS], None)


def _bury(
    delivery: Delivery,
    reason: DlqReason,
    job_id: str | None,
    attempt: int,
    error: str,
    duration_us: int | None,
    *,
    error_type: str = "",
    trace: str = "",
) -> Bury:
    # The detail may quote the entry, which may be of any length.
    name, detail = reason.as_str(), (reason.detail or "")[:MAX_DETAIL_CHARS]
    failure = encode_failure(name, detail, attempt, trace)
    return Bury(delivery, name, detail, job_id, attempt, error, duration_us, failure, error_type)


def allowed_runs(job: Job, config: ConsumerConfig) -> int:
    """Runs in all: the job's own number, or the worker's. A relay runs no job itself, so only the worker's counts."""
    if job.retry is not None and job.retry.max_attempts is not None and not config.relay:
        return job.retry.max_attempts
    return config.max_attempts


def runs_begun(job: Job, deliveries: int, allowed: int) -> int:
    """The number of runs before this delivery, as far as it can be known.

    The server counts deliveries. The worker counts a run before it starts, but only where it matters:
    the last run, and any run after a worker went silent. So the first delivery may be of a run that nothing
    counted, unless that run was the last: then it was counted, or never started.
    """
    uncounted = min(deliveries, 1) if allowed - job.attempt > 1 else 0
    return job.attempt + uncounted + max(0, deliveries - 1)


def must_be_counted(job: Job, deliveries: int, allowed: int) -> bool:
    """Whether a run must be counted before it starts."""
    return deliveries > 0 or allowed - job.attempt <= 1


def describe(error: BaseException) -> str:
    """Type and text of an error."""
    return f"{type(error).__name__}: {_text(error)}"[:MAX_DETAIL_CHARS]


def brief(error: BaseException) -> str:
    """Text of an error, or its type where it has none."""
    return (_text(error) or type(error).__name__)[:MAX_ERROR_CHARS]


def kind_of(error: BaseException) -> str:
    """The class of an error."""
    return type(error).__name__[:MAX_ERROR_TYPE_CHARS].encode(errors="replace").decode()


def _text(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as err:  # noqa: BLE001 - the verdict does not depend on an error's __str__
        return f"(its __str__ raised {type(err).__name__})"
    # A lone surrogate cannot be sent.
    return text.encode(errors="replace").decode()
