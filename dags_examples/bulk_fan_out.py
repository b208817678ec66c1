"""Thousands of jobs from one task, their results awaited without a slot, and mapped tasks over chunks of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow.sdk import DAG, task

from chasqui_provider.operators.chasqui import ChasquiBulkEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor


def numbers() -> Iterator[dict[str, int]]:
    """Read a chunk at a time: the whole of it is never in memory."""
    return ({"n": n} for n in range(200))


with DAG("bulk_fan_out", schedule=None, tags=["chasqui"]) as dag:
    squares = ChasquiBulkEnqueueOperator(
        task_id="squares",
        queue_name="squares",
        job_name="square",
        payloads=numbers,
        chunk_size=50,
        return_ids=True,
    )

    @task
    def chunks(summary: dict[str, Any]) -> list[list[str]]:
        ids = summary["ids"]
        return [ids[start : start + 50] for start in range(0, len(ids), 50)]

    results = ChasquiJobResultSensor.partial(task_id="results", queue_name="squares", deferrable=True).expand(
        job_ids=chunks(squares.output)
    )

    @task
    def total(parts: Any) -> int:
        return sum(sum(part) for part in parts)

    total(results.output)
