"""Tasks that are cleared in a real Airflow: each clear means a new job, and no kill takes it away."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from chasqui_engine import JobState, SyncQueue
from tests.provider.e2e.real_airflow import IS_3_3, RealAirflow

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

DAG = "cleared"
TASKS = {("wait", 0): "deferred", ("wait", 1): "deferred", ("given", -1): "deferred", ("send", -1): "success"}
TASKS[("many", 0)] = "success"


def job_id(run_id: str, task_id: str, map_index: int, tries: int) -> str:
    return f"airflow:{DAG}:{run_id}:{task_id}:{map_index}{f':clear-{tries}' if tries else ''}"


def after_tries(airflow: RealAirflow, run_id: str, tries: int) -> bool:
    """Whether every task has come as far as it comes, in its next try."""
    found = {(task["task_id"], task["map_index"]): task for task in airflow.tasks(DAG, run_id)}
    return found.keys() == TASKS.keys() and all(
        found[key]["state"] == state and found[key]["try_number"] == tries + 1 for key, state in TASKS.items()
    )


def until_triggers_started(airflow: RealAirflow, run_id: str, count: int) -> None:
    def started() -> bool:
        logs = (airflow.home / "logs").glob(f"*/run_id={run_id}/**/*.trigger.*.log")
        return sum(" starting" in log.read_text() for log in logs) == count

    airflow.until(started, "the triggerer to have them")


def clear(airflow: RealAirflow, run_id: str) -> None:
    body: dict[str, Any] = {"dry_run": False, "dag_run_id": run_id, "only_failed": False, "reset_dag_runs": True}
    airflow.post(f"/api/v2/dags/{DAG}/clearTaskInstances", body)


def end(airflow: RealAirflow, run_id: str) -> None:
    """Leaves no trigger to those who come after."""
    airflow.patch(f"/api/v2/dags/{DAG}/dagRuns/{run_id}", {"state": "failed"})
    airflow.until(lambda: all(task["state"] != "deferred" for task in airflow.tasks(DAG, run_id)), "no wait to be left")


def check(airflow: RealAirflow, queue: SyncQueue, run_id: str, tries: int) -> None:
    """Every task has added its job; those of the try before were taken back where they were to be."""

    def states(task_id: str, map_indexes: Iterable[int], of_tries: int) -> set[JobState]:
        return {queue.get_job(job_id(run_id, task_id, n, of_tries)).state for n in map_indexes}

    airflow.until(lambda: after_tries(airflow, run_id, tries), f"all tasks after {tries} clears", 90)
    if tries and IS_3_3:
        airflow.until(lambda: states("wait", (0, 1), tries - 1) == {JobState.ABORTED}, "old jobs to be taken back")
    assert states("wait", (0, 1), tries) == {JobState.DELAYED}
    assert queue.get_job("given").state is JobState.DELAYED
    assert states("send", [-1], tries) == {JobState.WAITING}
    assert airflow.xcom(DAG, run_id, "many", 0)["added"] == 2


def test_a_clear_means_a_new_job(airflow: RealAirflow, url: str) -> None:
    with SyncQueue("e2e-clears", redis_url=url) as queue:
        run_id = airflow.trigger(DAG)
        check(airflow, queue, run_id, 0)
        for tries in (1, 2):
            if IS_3_3:
                # Only a trigger that the triggerer has taken up is told of the clear; before 3.3, none is.
                until_triggers_started(airflow, run_id, 3 * tries)
            clear(airflow, run_id)
            check(airflow, queue, run_id, tries)
        assert queue.counts().waiting == 3 * (1 + 2)
        assert airflow.xcom(DAG, run_id, "given", key="added") is False
        end(airflow, run_id)
