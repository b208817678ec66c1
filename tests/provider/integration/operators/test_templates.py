"""The operators with templates that Airflow itself renders: as text, and natively."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from chasqui_engine import SyncQueue
from chasqui_provider.operators.chasqui import ChasquiBulkEnqueueOperator, ChasquiEnqueueOperator


@pytest.mark.parametrize("native", [False, True])
def test_what_templates_make_is_understood(
    native: bool, valkey_queue_url: str, queue_name: str, context: dict[str, Any]
) -> None:
    with DAG("templates", schedule=None, render_template_as_native_obj=native):
        tasks: list[Any] = [
            ChasquiBulkEnqueueOperator(
                task_id="bulk", queue_name=queue_name, payloads="{{ ti.xcom_pull(task_ids='gen') }}"
            ),
            ChasquiEnqueueOperator(
                task_id="late",
                queue_name=queue_name,
                job_name="{{ 7 }}",
                job_id="{{ 42 }}",
                delay="{{ macros.timedelta(hours=2) }}",
                attempts="{{ 3 }}",
                backoff="{{ {'kind': 'fixed', 'delay_ms': 5} }}",
            ),
            ChasquiEnqueueOperator(
                task_id="plain", queue_name=queue_name, delay="{{ none }}", attempts="{{ none }}", job_id="{{ none }}"
            ),
            ChasquiEnqueueOperator(task_id="urgent", queue_name=queue_name, job_id="5", priority="{{ 2 + 3 }}"),
            ChasquiBulkEnqueueOperator(
                task_id="lanes",
                queue_name=queue_name,
                payloads=[{"payload": 1, "priority": 7}, {"payload": 2}],
                items_are_jobs=True,
                fresh_ids=True,
                priority="{{ 6 }}",
            ),
        ]
    context["ti"].xcom_pull = lambda task_ids: [{"n": 1}, {"n": None}, "it's"]
    context["macros"] = SimpleNamespace(timedelta=timedelta)
    for task in tasks:
        task.render_template_fields(context)
        task.execute(context)
    with SyncQueue(queue_name, redis_url=valkey_queue_url) as queue:
        counts, late = queue.counts(), queue.get_job("42")
        lanes = [(job.payload, job.priority) for job in queue.get_jobs("prioritized")]
    assert (counts.waiting, counts.delayed) == (4, 1)
    assert lanes == [(None, 5), (2, 6), (1, 7)]
    assert (late.name, late.state) == ("7", "delayed")
