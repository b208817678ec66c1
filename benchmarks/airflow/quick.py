"""Deferrable waits in an Airflow with its own settings: none may fail for coming back too early, and none take long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from benchmarks.airflow.real import AS_BY_DEFAULT, airflow_with
from chasqui_engine import Job
from tests.provider.e2e.real_airflow import RealAirflow
from tests.provider.helpers import worker_thread
from tests.servers import REDIS_8, ServerProcess

QUEUE = "bench-quick"
_DAG = f"""
from airflow.sdk import DAG, task
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator

with DAG("bench", schedule=None, is_paused_upon_creation=False, params={{"waits": 1, "seconds": 0.0}}):
    @task
    def numbers(**context):
        return list(range(context["params"]["waits"]))

    wait = {{"queue_name": "{QUEUE}", "wait_for_result": True, "deferrable": True, "retries": 0}}
    wait |= @OPTIONS@
    mapped = ChasquiEnqueueOperator.partial(task_id="wait", job_name="{{{{ params.seconds }}}}", **wait)
    mapped.expand(payload=numbers())
"""


class Case(NamedTuple):
    """So many waits for jobs that take so long."""

    waits: int
    seconds: float

    @classmethod
    def read(cls, text: str) -> Case:
        """From `48x3`."""
        waits, _, seconds = text.partition("x")
        return cls(int(waits), float(seconds))


def measure(
    cases: Sequence[Case],
    executor: str = "LocalExecutor",
    task_options: dict[str, Any] | None = None,
    slots: int = 8,
) -> Iterator[dict[str, Any]]:
    """A run for each case, one after the other, in one Airflow."""
    with ExitStack() as stack:
        options = {**AS_BY_DEFAULT, "AIRFLOW__CORE__EXECUTOR": executor, "AIRFLOW__CORE__PARALLELISM": str(slots)}
        if executor == "CeleryExecutor":
            broker = stack.enter_context(ServerProcess(REDIS_8))
            options |= {"AIRFLOW__CELERY__BROKER_URL": broker.url, "AIRFLOW__CELERY__RESULT_BACKEND": broker.url}
            options |= {"AIRFLOW__CELERY__WORKER_CONCURRENCY": str(slots)}
        dag = _DAG.replace("@OPTIONS@", repr(task_options or {}))
        airflow, url = stack.enter_context(airflow_with(dag, options))
        if executor == "CeleryExecutor":
            airflow.start_part("celery", "worker", "worker", "--skip-serve-logs")
        ended: dict[int, float] = {}

        async def take_long(job: Job) -> Any:
            await asyncio.sleep(float(job.name))
            ended[job.payload] = time.time()
            return job.payload

        with worker_thread(url, QUEUE, take_long, concurrency=100):
            for case in cases:
                yield {"executor": executor, "slots": slots, **_measure(airflow, case, ended)}


def _measure(airflow: RealAirflow, case: Case, ended: dict[int, float]) -> dict[str, Any]:
    ended.clear()
    run_id = airflow.trigger("bench", case._asdict())
    airflow.until(lambda: airflow.run_state("bench", run_id) in ("success", "failed"), "the run", 600)
    waits = [task for task in airflow.tasks("bench", run_id) if task["task_id"] == "wait"]
    started, gone_on = ([_seconds(task[name]) for task in waits] for name in ("start_date", "end_date"))
    late_s = [at - ended[task["map_index"]] for task, at in zip(waits, gone_on, strict=True)]
    return {
        "waits": case.waits,
        "seconds a job takes": case.seconds,
        "failed": sum(task["state"] != "success" for task in waits),
        "a wait took s (median)": round(median(end - start for start, end in zip(started, gone_on, strict=True)), 1),
        "went on s after its job (median)": round(median(late_s), 1),
        "all ended after s": round(max(gone_on) - min(started), 1),
    }


def _seconds(date: str) -> float:
    return datetime.fromisoformat(date).timestamp()
