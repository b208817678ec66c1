"""Tasks to be cleared: waits for jobs of later, jobs that nobody waits for, and payloads that functions make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG

from chasqui_provider.operators.chasqui import ChasquiBulkEnqueueOperator, ChasquiEnqueueOperator

QUEUE: dict[str, Any] = {"queue_name": "e2e-clears"}
LATER = {"delay": 3600, "wait_for_result": True, "deferrable": True, "on_kill": "abort"}


def letters(ti: Any) -> Iterator[str]:
    yield from (ti.task_id, "b")


with DAG("cleared", schedule=None):
    ChasquiEnqueueOperator.partial(task_id="wait", retries=2, **QUEUE, **LATER).expand(payload=[1, 2])
    ChasquiEnqueueOperator(task_id="given", job_id="given", **QUEUE, **LATER)
    ChasquiEnqueueOperator(task_id="send", payload=lambda: {"n": 1}, **QUEUE)
    ChasquiBulkEnqueueOperator.partial(task_id="many", payloads=letters, **QUEUE).expand(job_name=["one"])
