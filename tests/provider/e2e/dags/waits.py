"""Waits that hold no slot, a DAG that needs one meanwhile, and a wait to be killed."""

from __future__ import annotations

from airflow.sdk import DAG, task

from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor

# Without retries: no wait may fail because it came back too early.
# Deferred at once, so that quick jobs end before Airflow knows that their tasks have been deferred.
WAITS = {"queue_name": "e2e-waits", "wait_for_result": True, "deferrable": True, "defer_after": 0}

with DAG("waits", schedule=None):
    ChasquiEnqueueOperator.partial(task_id="wait", job_name="double", **WAITS).expand(
        payload=[{"n": n} for n in range(6)]
    )

with DAG("meanwhile", schedule=None):

    @task
    def needs_a_slot() -> str:
        return "had one"

    needs_a_slot()

with DAG("to_be_killed", schedule=None):
    ChasquiEnqueueOperator(
        task_id="wait",
        job_name="double",
        payload={"n": 1},
        job_id="kill-me",
        delay=3600,
        on_kill="cancel",
        **WAITS,
    )

with DAG("from_triggerer", schedule=None):
    ChasquiJobResultSensor(
        task_id="sense",
        queue_name="e2e-waits",
        job_ids="known-from_triggerer",
        deferrable=True,
    )
