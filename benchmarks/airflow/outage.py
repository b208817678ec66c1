"""A server that is away for twenty seconds while tasks wait, add a bulk and begin to add a job, all without retries."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

from benchmarks.airflow.real import airflow_with
from chasqui_engine import Job, SyncQueue
from tests.provider.e2e.real_airflow import RealAirflow
from tests.provider.helpers import worker_thread
from tests.servers import REDIS_8, ServerProcess

QUEUE, BULK_QUEUE = "bench-outage", "bench-outage-bulk"
AWAY_S = 20.0
_JOB_S = 5.0
_BULK = 500
_DAG = f"""
import time
from airflow.sdk import DAG
from chasqui_provider.operators.chasqui import ChasquiBulkEnqueueOperator, ChasquiEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor

shared = {{"queue_name": "{QUEUE}"}}
bulk = {{"queue_name": "{BULK_QUEUE}", "chunk_size": 10}}

def one_by_one():
    for n in range({_BULK}):
        time.sleep(0.03)
        yield n

with DAG("bench", schedule=None, is_paused_upon_creation=False):
    ChasquiEnqueueOperator(task_id="wait", wait_for_result=True, **shared)
    ChasquiEnqueueOperator(task_id="deferred_wait", wait_for_result=True, deferrable=True, defer_after=0, **shared)
    ChasquiJobResultSensor(task_id="sensor", job_ids="of-another", poke_interval=2, timeout=300, **shared)
    ChasquiBulkEnqueueOperator(task_id="bulk", payloads=one_by_one, **bulk)

with DAG("late", schedule=None, is_paused_upon_creation=False):
    ChasquiEnqueueOperator(task_id="enqueue", **shared)
"""
_STORED = ("--appendonly", "yes", "--appendfsync", "always")


def measure() -> dict[str, Any]:
    """How each task ended, and how often each job was there."""
    handled: Counter[str] = Counter()

    async def take_long(job: Job) -> str:
        await asyncio.sleep(_JOB_S)
        handled[job.id] += 1
        return job.id

    options = {"AIRFLOW__CORE__PARALLELISM": "8"}
    with ServerProcess(REDIS_8, _STORED) as server, airflow_with(_DAG, options, server.url) as (airflow, _):
        with SyncQueue(QUEUE, redis_url=server.url) as queue, worker_thread(server.url, QUEUE, take_long):
            run_id = airflow.trigger("bench")
            airflow.until(lambda: _under_way(airflow, run_id), "the tasks to be at work", 120)
            queue.add("n", None, job_id="of-another")
            server.kill()
            late_id, killed = airflow.trigger("late"), time.monotonic()
            airflow.until(lambda: time.monotonic() - killed > AWAY_S, "the end of the outage")
            server.start()
            airflow.until(lambda: all(_have_ended(airflow, "bench", run_id)), "the tasks", 300)
            airflow.until(lambda: all(_have_ended(airflow, "late", late_id)), "the enqueue", 300)
            airflow.until(lambda: not queue.counts().waiting and not queue.counts().active, "all jobs", 120)
        tasks = airflow.tasks("bench", run_id) + airflow.tasks("late", late_id)
        with SyncQueue(BULK_QUEUE, redis_url=server.url) as bulk:
            added = bulk.counts().waiting
    return {
        "server away s": AWAY_S,
        **{f"{task['task_id']} ({task['duration']:.1f} s)": task["state"] for task in tasks},
        "jobs of the bulk": f"{added} of {_BULK}",
        "jobs of the others, and runs": f"{len(handled)}, {handled.total()}",
    }


def _under_way(airflow: RealAirflow, run_id: str) -> bool:
    at_work = {"wait": "running", "deferred_wait": "deferred", "sensor": "running", "bulk": "running"}
    return {task["task_id"]: task["state"] for task in airflow.tasks("bench", run_id)} == at_work


def _have_ended(airflow: RealAirflow, dag_id: str, run_id: str) -> list[bool]:
    return [task["state"] in ("success", "failed", "skipped") for task in airflow.tasks(dag_id, run_id)]
