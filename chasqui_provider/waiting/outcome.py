"""How jobs end, as plain data."""

from __future__ import annotations

from typing import Any

from chasqui_provider.conversion import short_text

COMPLETED, DEAD, EXPIRED = "completed", "dead", "expired"

Outcome = dict[str, Any]
"""How a job ended: `job_id`, `status`, and `result` as the job left it, or `reason`, `detail` and `attempt`."""


def completed_outcome(job_id: str, result: Any) -> Outcome:
    """With a result."""
    return {"job_id": job_id, "status": COMPLETED, "result": result}


def dead_outcome(job_id: str, reason: str, detail: str | None, attempt: int) -> Outcome:
    """In the dead letters; `attempt` is 0 where the number of runs is unknown."""
    short_detail = None if detail is None else short_text(detail)
    return {"job_id": job_id, "status": DEAD, "reason": short_text(reason), "detail": short_detail, "attempt": attempt}


def expired_outcome(job_id: str) -> Outcome:
    """Completed, but the result is gone, or was never stored."""
    return {"job_id": job_id, "status": EXPIRED}
