"""Deferred waits for results that Airflow finds hard to hold."""

from __future__ import annotations

from airflow.sdk import DAG

from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator

WAITS = {
    "queue_name": "e2e-odd",
    "attempts": 1,
    "wait_for_result": True,
    "deferrable": True,
    "defer_after": 0,
    "on_dead": "return",
}

with DAG("odd_results", schedule=None):
    ChasquiEnqueueOperator.partial(task_id="wait", **WAITS).expand(job_name=["nul", "dies", "large", "deep", "plain"])
