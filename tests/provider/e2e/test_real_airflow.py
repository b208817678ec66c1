"""One real Airflow for all of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from chasqui_engine import JobFailedError, SyncQueue
from tests.provider.e2e.real_airflow import RealAirflow, copy_dags
from tests.provider.helpers import worker_thread

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

DAGS = Path(__file__).parent / "dags"
ORDERS, WAITS = "e2e-orders", "e2e-waits"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("queues")


@pytest.fixture(scope="module")
def url(folder: Path) -> str:
    return f"embedded://{folder}"


@pytest.fixture(scope="module")
def orders(url: str) -> Iterator[SyncQueue]:
    # Held open by the tests, so that the embedded server outlives the parts of Airflow that are killed.
    with SyncQueue(ORDERS, redis_url=url) as queue:
        yield queue


@pytest.fixture(scope="module")
def start_s() -> int:
    return int(time.time()) // 5 * 5


@pytest.fixture(scope="module")
def airflow(
    folder: Path, orders: SyncQueue, start_s: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealAirflow]:
    connection = {"conn_type": "chasqui", "extra": {"embedded": str(folder)}}
    running = RealAirflow(tmp_path_factory.mktemp("airflow") / "home", connection)
    copy_dags(DAGS, running.dags, START_S=str(start_s))
    try:
        running.start()
        for dag_id in ("woken", "woken_too", "deaths", "ticks", "waits", "meanwhile", "to_be_killed", "from_triggerer"):
            running.unpause(dag_id)
        yield running
    finally:
        running.close()


def states(airflow: RealAirflow, dag_id: str, run_id: str) -> Counter[str]:
    return Counter(str(task["state"]) for task in airflow.tasks(dag_id, run_id))


def finished(airflow: RealAirflow, dag_id: str, run_id: str) -> bool:
    return any(run["dag_run_id"] == run_id and run["state"] == "success" for run in airflow.runs(dag_id))


def add(queue: SyncQueue, ids: list[str]) -> None:
    queue.add_bulk([{"name": "order", "data": {"id": job_id}, "job_id": job_id} for job_id in ids])


def all_stored_once(airflow: RealAirflow, ids: list[str]) -> bool:
    """All are there; as soon as one is there twice, that is an error."""
    counts = Counter(airflow.woken_by())
    assert not [job_id for job_id in ids if counts[job_id] > 1]
    return all(counts[job_id] == 1 for job_id in ids)


def test_the_connection_form(airflow: RealAirflow) -> None:
    (form,) = [one for one in airflow.get("/ui/connections/hook_meta") if one["connection_type"] == "chasqui"]
    assert form["hook_name"] == "Chasqui"
    assert form["extra_fields"]["url"]["schema"]["format"] == "password"
    assert form["standard_fields"]["url_schema"]["title"] == "Database"
    assert form["standard_fields"]["host"]["placeholder"].startswith("redis.example.org")


def test_the_provider_is_known(airflow: RealAirflow) -> None:
    found = airflow.get("/api/v2/providers", limit=100)["providers"]
    assert "chasqui" in [provider["package_name"] for provider in found]


def test_a_wait_holds_no_slot(airflow: RealAirflow, url: str) -> None:
    run_id = airflow.trigger("waits")
    airflow.until(lambda: states(airflow, "waits", run_id) == {"deferred": 6}, "six deferred waits")
    # There are two slots. With six waits under way, a task still gets one.
    other = airflow.trigger("meanwhile")
    airflow.until(lambda: finished(airflow, "meanwhile", other), "the other DAG")
    assert states(airflow, "waits", run_id) == {"deferred": 6}
    with worker_thread(url, WAITS):
        airflow.until(lambda: finished(airflow, "waits", run_id), "the waits", 90)
    assert [airflow.xcom("waits", run_id, "wait", n) for n in range(6)] == [0, 2, 4, 6, 8, 10]


def test_a_sensor_that_starts_in_the_triggerer(airflow: RealAirflow, url: str) -> None:
    with SyncQueue(WAITS, redis_url=url) as queue, worker_thread(url, WAITS):
        queue.add("double", {"n": 21}, job_id="known-from_triggerer")
        run_id = airflow.trigger("from_triggerer")
        airflow.until(lambda: finished(airflow, "from_triggerer", run_id), "the sensor")
    assert airflow.xcom("from_triggerer", run_id, "sense") == 42


def ask(folder: Path, *command: str) -> int:
    with redis.Redis(unix_socket_path=str(next(folder.rglob("*.sock")))) as client:
        return int(client.execute_command(*command))


def delayed(folder: Path) -> int:
    return ask(folder, "ZCARD", f"{{chasqui:{WAITS}}}:delayed")


def not_acked(folder: Path) -> int:
    return ask(folder, "XLEN", f"{{chasqui:{ORDERS}}}:stream")


def test_a_kill_takes_the_job_back(airflow: RealAirflow, folder: Path) -> None:
    run_id = airflow.trigger("to_be_killed")
    airflow.until(lambda: states(airflow, "to_be_killed", run_id) == {"deferred": 1}, "the deferred wait")
    # The triggerer must have taken it up: only a running trigger is told of the kill.
    path = f"/api/v2/dags/to_be_killed/dagRuns/{run_id}/taskInstances/wait"
    airflow.until(lambda: (airflow.get(path)["trigger"] or {}).get("triggerer_id"), "the triggerer to have it")
    time.sleep(2.5)
    assert delayed(folder) == 1
    airflow.patch(path, {"new_state": "failed"})

    airflow.until(lambda: not delayed(folder), "the job to be gone")


def test_the_timetables_runs(airflow: RealAirflow, start_s: int) -> None:
    def fires() -> list[datetime]:
        return sorted(datetime.fromisoformat(run["logical_date"]) for run in airflow.runs("ticks"))

    airflow.until(lambda: len(fires()) == 3, "three runs")
    first = datetime.fromtimestamp(start_s, UTC) + timedelta(seconds=5)
    assert fires() == [first + timedelta(seconds=5 * n) for n in range(3)]
    assert {run["run_type"] for run in airflow.runs("ticks")} == {"scheduled"}


def die(url: str, job_id: str) -> None:
    with SyncQueue(WAITS, redis_url=url) as queue, worker_thread(url, WAITS):
        job = queue.add("die", None, job_id=job_id)
        with pytest.raises(JobFailedError):
            queue.wait_for_result(job)


def test_jobs_wake_a_dag_once_each_whatever_becomes_of_the_triggerer(
    airflow: RealAirflow, orders: SyncQueue, url: str, folder: Path
) -> None:
    before = [f"before-{n}" for n in range(20)]
    add(orders, before)
    airflow.until(lambda: all_stored_once(airflow, before), "the first jobs")
    airflow.until(lambda: not not_acked(folder), "their acks, which follow within a second or two")

    # The supervisor stands still: what the triggerer takes now is never stored. Then both are killed.
    airflow.freeze("triggerer")
    held = [f"held-{n}" for n in range(20)]
    add(orders, held)
    time.sleep(2)
    assert not_acked(folder) == len(held)
    airflow.kill("triggerer")
    away = [f"away-{n}" for n in range(20)]
    add(orders, away)
    die(url, "died-while-away")
    assert not set(airflow.woken_by()) & {*held, *away}

    # There are three triggers, two of them on the orders. With room for one each, no triggerer has both of those.
    successors = ["triggerer-1", "triggerer-2", "triggerer-3"]
    for name in successors:
        airflow.start_part("triggerer", name, "--capacity", "1")
    airflow.until(lambda: all(" starting" in airflow.log(name) for name in successors), "its successors", 90)
    shared = [f"shared-{n}" for n in range(100)]
    add(orders, shared)
    every = {*before, *held, *away, *shared}
    airflow.until(lambda: all_stored_once(airflow, sorted(every)), "all jobs", 120)
    assert sum("e2e-orders" in airflow.log(name) for name in successors) == 2, "both of them woke DAGs"
    taken = Counter(taken_by(airflow, "woken") + taken_by(airflow, "woken_too"))
    assert set(taken.values()) == {1}
    assert set(taken) == every
    airflow.until(lambda: _all_done(airflow.runs("deaths")), "the DAG on dead letters")
    told = [job for run in airflow.runs("deaths") for job in airflow.xcom("deaths", run["dag_run_id"], "report")]
    assert told == ["died-while-away"]


def taken_by(airflow: RealAirflow, dag_id: str) -> list[str]:
    runs = airflow.until(lambda: _all_done(airflow.runs(dag_id)), f"the runs of {dag_id} to end")
    return [job for run in runs for job in airflow.xcom(dag_id, run["dag_run_id"], "take")]


def _all_done(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return runs if runs and all(run["state"] == "success" for run in runs) else []
