"""Results that Airflow finds hard to hold, in a real Airflow: each harms its own task at most, and no triggerer."""

from __future__ import annotations

from typing import Any

import pytest

from chasqui_engine import Job
from tests.provider.e2e.real_airflow import RealAirflow
from tests.provider.helpers import worker_thread
from tests.provider.integration.test_odd_values import nested

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

DAG = "odd_results"
LARGE = "large-" * 150_000
NUL, DIES, BIG, DEEP, PLAIN = range(5)


async def odd(job: Job) -> Any:
    match job.name:
        case "nul":
            return {"k\0": "v\0"}
        case "dies":
            raise ValueError("be\0cause")
        case "large":
            return LARGE
        case "deep":
            return nested(200)
    return 42


def states(airflow: RealAirflow, run_id: str) -> dict[int, str]:
    return {task["map_index"]: str(task["state"]) for task in airflow.tasks(DAG, run_id)}


def test_each_harms_its_own_task_at_most(airflow: RealAirflow, url: str) -> None:
    run_id = airflow.trigger(DAG)
    everyone = range(5)
    airflow.until(lambda: states(airflow, run_id) == dict.fromkeys(everyone, "deferred"), "five deferred waits", 180)
    ended = {**dict.fromkeys(everyone, "success"), DEEP: "failed"}
    with worker_thread(url, "e2e-odd", odd):
        airflow.until(lambda: states(airflow, run_id) == ended, "all of them to end", 180)

    assert airflow.xcom(DAG, run_id, "wait", NUL) == {"k\ufffd": "v\ufffd"}
    assert airflow.xcom(DAG, run_id, "wait", DIES)["detail"].endswith("be\ufffdcause")
    assert airflow.xcom(DAG, run_id, "wait", BIG) == LARGE
    assert airflow.xcom(DAG, run_id, "wait", PLAIN) == 42
    logs = [log.read_text() for log in (airflow.home / "logs").glob(f"dag_id={DAG}/**/*.log")]
    assert any("nested deeper than" in log for log in logs), "the one that failed says why"
    assert not any("large-large" in log for log in [*logs, airflow.log("triggerer")]), "no log shows what events hold"
