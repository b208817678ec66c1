"""Ids that a task gives its jobs: the same ones however often it is retried or cleared."""

from __future__ import annotations

import hashlib
from typing import Any

_MAX_BYTES = 512
"""Well under what the engine accepts, with room for an item's number."""


def task_job_id(context: Any, item: int | None = None) -> str:
    """The id of a task's job, from dag, run, task, map index and the item's place."""
    ti = context["ti"]
    stem = f"airflow:{ti.dag_id}:{ti.run_id}:{ti.task_id}:{getattr(ti, 'map_index', -1)}"
    if len(stem.encode()) > _MAX_BYTES:
        stem = f"airflow:{hashlib.sha256(stem.encode()).hexdigest()}"
    return stem if item is None else f"{stem}:{item}"
