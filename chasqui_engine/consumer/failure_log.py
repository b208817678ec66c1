"""Logs failures: a failed run that is retried is a warning, a death is an error with the traceback.

A job that its handler postponed did not fail, and is logged at INFO; so is one that was aborted or has expired.
"""

from __future__ import annotations

import logging

from chasqui_engine._redis.commands.settle import Bury, Drop, Retry
from chasqui_engine.consumer.verdict import describe

_log = logging.getLogger("chasqui.consumer")


def log_retry(queue: str, retry: Retry, allowed: int, error: BaseException) -> None:
    """Logs a failed run that is retried; the traceback is included at level DEBUG."""
    if not retry.error:
        _log.info(
            "queue %s: job %.200r (%.200r) was postponed by its handler; it runs again in %.1f s",
            queue,
            retry.job_id,
            retry.delivery.name,
            retry.backoff_ms / 1000,
            extra={**_fields(queue, retry), "max_attempts": allowed, "backoff_ms": retry.backoff_ms},
        )
        return
    _log.warning(
        "queue %s: job %.200r (%.200r) failed in run %d of %d: %.500s; it runs again in %.1f s",
        queue,
        retry.job_id,
        retry.delivery.name,
        retry.attempt,
        allowed,
        _on_one_line(describe(error)),
        retry.backoff_ms / 1000,
        extra={**_fields(queue, retry), "max_attempts": allowed, "backoff_ms": retry.backoff_ms},
        exc_info=_traceable(error) if _log.isEnabledFor(logging.DEBUG) else None,
    )


def log_burial(queue: str, bury: Bury, error: BaseException | None = None) -> None:
    """Logs a death: after a run that failed with `error`, or without a run."""
    runs = f"after {bury.attempt} run(s)" if bury.attempt else "before its first run"
    _log.error(
        "queue %s: job %.200r (%.200r) was buried %s, %s: %.500s; `chasqui dlq` shows and replays dead letters",
        queue,
        bury.job_id,
        bury.delivery.name,
        runs,
        bury.reason,
        _on_one_line(bury.detail),
        extra={**_fields(queue, bury), "reason": bury.reason},
        exc_info=_traceable(error),
    )


def log_drop(queue: str, drop: Drop) -> None:
    """Logs the end of a job that was aborted or has expired."""
    what = "expired before it began" if drop.kind == "expired" else "was aborted"
    where = f" in run {drop.attempt}" if drop.duration_us is not None else ""
    fields = (queue, drop.job_id, drop.delivery.name)
    _log.info("queue %s: job %.200r (%.200r) %s%s", *fields, what, where, extra=_fields(queue, drop))


def _fields(queue: str, verdict: Retry | Bury | Drop) -> dict[str, object]:
    """For structured logging; `name` would be the logger's."""
    return {
        "queue": queue,
        "job_id": verdict.job_id,
        "job_name": verdict.delivery.name,
        "attempt": verdict.attempt,
        "error": verdict.kind if isinstance(verdict, Drop) else verdict.error,
    }


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


def _traceable(error: BaseException | None) -> BaseException | None:
    """The error, unless its text has a lone surrogate: a log file in UTF-8 would lose the whole record."""
    try:
        str(error).encode()
    except UnicodeEncodeError:
        return None
    except Exception:  # noqa: BLE001 - an error whose __str__ raises still has a traceback
        return error
    return error
