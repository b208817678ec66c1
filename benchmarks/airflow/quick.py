"""Deferrable waits for quick jobs, in an Airflow with its own settings: none may fail for coming back too early."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from benchmarks.airflow.real import airflow_with
from chasqui_engine import Job
from tests.provider.helpers import worker_thread

QUEUE = "bench-quick"
_DAG = f"""
from airflow.sdk import DAG
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator

with DAG("bench", schedule=None, is_paused_upon_creation=False):
    wait = {{"queue_name": "{QUEUE}", "wait_for_result": True, "deferrable": True, "retries": 0}}
    ChasquiEnqueueOperator.partial(task_id="wait", **wait).expand(payload=list(range(@WAITS@)))
"""
# What the tests' Airflow has shorter, as it is by default.
_OPTIONS = {
    "AIRFLOW__CORE__PARALLELISM": "8",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
    "AIRFLOW__SCHEDULER__JOB_HEARTBEAT_SEC": "5",
    "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "5",
}


def measure(waits: int, seconds: float) -> dict[str, Any]:
    """One run with so many waits for jobs that take so long."""

    async def take_long(job: Job) -> Any:
        await asyncio.sleep(seconds)
        return job.payload

    dag = _DAG.replace("@WAITS@", str(waits))
    with airflow_with(dag, _OPTIONS) as (airflow, url):
        with worker_thread(url, QUEUE, take_long, concurrency=100):
            begun = time.monotonic()
            run_id = airflow.trigger("bench")
            airflow.until(lambda: airflow.runs("bench")[0]["state"] in ("success", "failed"), "the run", 600)
            took_s = time.monotonic() - begun
        states = Counter(str(task["state"]) for task in airflow.tasks("bench", run_id))
    return {
        "waits for quick jobs": waits,
        "seconds a job takes": seconds,
        "failed": waits - states["success"],
        "all ended after s": round(took_s, 1),
    }
