"""What an enqueue costs a task: beside one that does nothing, one after the other in a real Airflow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from statistics import median
from typing import Any

from benchmarks.airflow.real import AS_BY_DEFAULT, airflow_with

_TASKS = 30
_DAG = f"""
from airflow.sdk import DAG, task
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator

with DAG("bench", schedule=None, is_paused_upon_creation=False):
    @task
    def empty(n):
        pass

    empty.expand(n=list(range({_TASKS})))
    ChasquiEnqueueOperator.partial(task_id="enqueue", queue_name="bench-empty").expand(payload=list(range({_TASKS})))
"""
_ONE_SLOT = {"AIRFLOW__CORE__PARALLELISM": "1"}
"""Two tasks at once would share the processors."""


def measure() -> dict[str, Any]:
    """Seconds from a task's start to its end, by Airflow's clock."""
    with airflow_with(_DAG, {**AS_BY_DEFAULT, **_ONE_SLOT}) as (airflow, _):
        run_id = airflow.trigger("bench")
        airflow.until(lambda: airflow.run_state("bench", run_id) == "success", "the run", 900)
        tasks = airflow.tasks("bench", run_id)
    return {"tasks of each kind": _TASKS} | {
        f"{kind} s (median)": _median_s(task for task in tasks if task["task_id"] == kind)
        for kind in ("empty", "enqueue")
    }


def _median_s(tasks: Iterable[dict[str, Any]]) -> float:
    date = datetime.fromisoformat
    return round(median((date(task["end_date"]) - date(task["start_date"])).total_seconds() for task in tasks), 2)
