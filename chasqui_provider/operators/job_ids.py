"""Ids that a task gives its jobs: the same after a retry, new ones after a clear."""

from __future__ import annotations

import hashlib
import re
from typing import Any

_MAX_BYTES = 512
"""Well below the engine's limit, with room for an item's number."""
_CLEARED = re.compile(r":clear-\d+$")


def task_job_id(context: Any, item: int | None = None) -> str:
    """The id of a task's job, from dag, run, task, map index, the tries before its last clear, and the item's place."""
    ti = context["ti"]
    stem = f"airflow:{ti.dag_id}:{ti.run_id}:{ti.task_id}:{getattr(ti, 'map_index', -1)}"
    if len(stem.encode()) > _MAX_BYTES:
        stem = f"airflow:{hashlib.sha256(stem.encode()).hexdigest()}"
    if cleared_after := _tries_before_clear(ti):
        stem = f"{stem}:clear-{cleared_after}"
    return stem if item is None else f"{stem}:{item}"


def id_after_clear(job_id: str, tries: int) -> str | None:
    """The id that the job of a task has if the task is cleared after so many tries; None if the id is a user's own."""
    return f"{_CLEARED.sub('', job_id)}:clear-{tries}" if job_id.startswith("airflow:") else None


def _tries_before_clear(ti: Any) -> int:
    """The number of tries when the task was last cleared; 0 if it never was.

    A clear gives the task as many tries more as it has retries, and that sets `max_tries`.
    """
    return int(ti.max_tries) - int(ti.task.retries or 0)
