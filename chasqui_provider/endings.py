"""How jobs end, as plain data that a trigger can hand to a task."""

from __future__ import annotations

from typing import Any

from chasqui_provider.values import to_json

COMPLETED, DEAD, EXPIRED = "completed", "dead", "expired"

Ending = dict[str, Any]
"""How a job ended, as JSON: `job_id`, `status`, and `result`, or `reason`, `detail` and `attempt`."""


def completed(job_id: str, result: Any) -> Ending:
    """With a result."""
    return {"job_id": job_id, "status": COMPLETED, "result": to_json(result)}


def dead(job_id: str, reason: str, detail: str | None, attempt: int) -> Ending:
    """In the dead letters; `attempt` is 0 where nobody knows how often it ran."""
    return {"job_id": job_id, "status": DEAD, "reason": reason, "detail": detail, "attempt": attempt}


def expired(job_id: str) -> Ending:
    """Completed, but the result is gone, or was never stored."""
    return {"job_id": job_id, "status": EXPIRED}
