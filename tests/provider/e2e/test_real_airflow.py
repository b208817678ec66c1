"""Waits, messages, schedules and kills in a real Airflow."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from chasqui_engine import Job, JobFailedError, SyncQueue
from tests.provider.e2e.orders import (
    SECRET,
    add,
    add_odd,
    all_done,
    all_stored,
    all_taken,
    ask,
    idle_runs,
    not_acked,
    pending,
)
from tests.provider.e2e.real_airflow import IS_3_3, ORDERS, WAITS, RealAirflow
from tests.provider.helpers import worker_thread

since_3_3 = pytest.mark.skipif(not IS_3_3, reason="Airflow has had it since 3.3")
pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]


def states(airflow: RealAirflow, dag_id: str, run_id: str) -> Counter[str]:
    return Counter(str(task["state"]) for task in airflow.tasks(dag_id, run_id))


def finished(airflow: RealAirflow, dag_id: str, run_id: str) -> bool:
    return any(run["dag_run_id"] == run_id and run["state"] == "success" for run in airflow.runs(dag_id))


@since_3_3
def test_the_connection_form(airflow: RealAirflow) -> None:
    (form,) = [one for one in airflow.get("/ui/connections/hook_meta") if one["connection_type"] == "chasqui"]
    assert form["hook_name"] == "Chasqui"
    assert form["extra_fields"]["url"]["schema"]["format"] == "password"
    assert form["standard_fields"]["url_schema"]["title"] == "Database"
    assert form["standard_fields"]["host"]["placeholder"].startswith("redis.example.org")


def test_the_provider_is_known(airflow: RealAirflow) -> None:
    found = airflow.get("/api/v2/providers", limit=100)["providers"]
    assert "chasqui" in [provider["package_name"] for provider in found]
    assert json.loads(airflow.run("providers", "get", "chasqui", "-o", "json"))[0]["Provider"] == "chasqui"


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


async def double_in_two_seconds(job: Job) -> int:
    await asyncio.sleep(2)
    return int(job.payload["n"]) * 2


def test_a_wait_that_ends_before_airflow_has_heard_that_it_was_deferred(airflow: RealAirflow, url: str) -> None:
    with worker_thread(url, WAITS, double_in_two_seconds):
        run_id = airflow.trigger("waits")
        airflow.until(lambda: finished(airflow, "waits", run_id), "the waits, none of which may fail", 90)
    assert [airflow.xcom("waits", run_id, "wait", n) for n in range(6)] == [0, 2, 4, 6, 8, 10]


def test_a_sensor_that_starts_in_the_triggerer(airflow: RealAirflow, url: str) -> None:
    with SyncQueue(WAITS, redis_url=url) as queue, worker_thread(url, WAITS):
        queue.add("double", {"n": 21}, job_id="known-from_triggerer")
        run_id = airflow.trigger("from_triggerer")
        airflow.until(lambda: finished(airflow, "from_triggerer", run_id), "the sensor")
    assert airflow.xcom("from_triggerer", run_id, "sense") == 42


async def welcome(job: Job) -> list[str]:
    return ["welcome", job.payload]


def test_the_documented_wait_for_an_id_from_another_task(airflow: RealAirflow, url: str) -> None:
    with SyncQueue("emails", redis_url=url) as queue, worker_thread(url, "emails", welcome):
        queue.add("welcome", "ada", job_id="welcome-ada")
        run_id = airflow.trigger("send_and_wait")
        airflow.until(lambda: finished(airflow, "send_and_wait", run_id), "the documented DAG", 90)
    assert airflow.xcom("send_and_wait", run_id, "wait") == ["welcome", "ada@example.org"]
    assert airflow.xcom("send_and_wait", run_id, "known") == ["welcome", "ada"]


def delayed(folder: Path) -> int:
    return int(ask(folder, "ZCARD", f"{{chasqui:{WAITS}}}:delayed"))


def started(airflow: RealAirflow, run_id: str) -> bool:
    logs = (airflow.home / "logs").glob(f"*/run_id={run_id}/**/*.trigger.*.log")
    return any(" starting" in log.read_text() for log in logs)


@since_3_3
def test_a_kill_takes_the_job_back(airflow: RealAirflow, folder: Path) -> None:
    run_id = airflow.trigger("to_be_killed")
    airflow.until(lambda: states(airflow, "to_be_killed", run_id) == {"deferred": 1}, "the deferred wait")
    # The triggerer must have taken it up: only a running trigger is told of the kill.
    airflow.until(lambda: started(airflow, run_id), "the triggerer to have it")
    assert delayed(folder) == 1
    airflow.patch(f"/api/v2/dags/to_be_killed/dagRuns/{run_id}/taskInstances/wait", {"new_state": "failed"})

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


def stored_but_not_acked(airflow: RealAirflow, orders: SyncQueue, folder: Path) -> tuple[list[str], list[str]]:
    """Stops the triggerer between storing an event and acking its jobs; these jobs, and all that it took on the way."""
    tried: list[str] = []
    for turn in range(10):
        ids = [f"twice-{turn}-{n}" for n in range(5)]
        tried += ids
        add(orders, ids)
        airflow.until(lambda ids=ids: all_stored(airflow, ids), "the jobs to be stored")  # type: ignore[misc]
        airflow.freeze("triggerer")
        time.sleep(1)  # for an ack that is on its way
        if not_acked(folder):
            return ids, tried
        airflow.thaw("triggerer")
    raise AssertionError("the acks were quicker every time")


def test_jobs_wake_a_dag_once_each_whatever_becomes_of_the_triggerer(
    airflow: RealAirflow, orders: SyncQueue, url: str, folder: Path
) -> None:
    before = [f"before-{n}" for n in range(20)]
    add(orders, before)
    before += add_odd(orders)
    airflow.until(lambda: all_stored(airflow, before), "the first jobs")
    airflow.until(lambda: not not_acked(folder), "their acks, which follow within a second or two")

    # The supervisor stands still: what the triggerer takes now is never stored. Then both are killed.
    twice, tried = stored_but_not_acked(airflow, orders, folder)
    unacked = not_acked(folder)
    held = [f"held-{n}" for n in range(10)]
    add(orders, held)
    airflow.until(lambda: pending(folder) > unacked, "the triggerer to take some of them")
    airflow.kill("triggerer")
    away = [f"away-{n}" for n in range(20)]
    add(orders, away)
    die(url, "died-while-away")
    assert not set(airflow.woken_by()) & {*held, *away}

    shared = two_successors(airflow, orders, folder) if IS_3_3 else one_successor(airflow)
    every = [*before, *tried, *held, *away, *shared]
    airflow.until(lambda: all_stored(airflow, every), "all jobs", 120)
    airflow.until(lambda: not not_acked(folder), "all acks")
    told = Counter(airflow.woken_by())
    assert Counter(all_taken(airflow, orders, every)) == Counter(every), "handled once"
    (letter,) = orders.peek_dlq()
    assert "nested deeper" in letter["detail"], "all but the one that Airflow cannot hold"
    logs = (*airflow.home.glob("triggerer*.log"), *(airflow.home / "logs").glob("trigger*/**/*.log"))
    assert not any(SECRET in log.read_text() for log in logs), "no log shows what events hold"
    if IS_3_3:
        assert told == Counter(every), "and told once, although nobody had acked them"
        assert not idle_runs(airflow)
        check_deaths(airflow)
    else:
        assert max(told[job_id] for job_id in twice) > 1, "told again, because nobody had acked them"


def check_deaths(airflow: RealAirflow) -> None:
    airflow.until(lambda: all_done(airflow.runs("deaths")), "the DAG on dead letters")
    told = {job for run in airflow.runs("deaths") for job in airflow.xcom("deaths", run["dag_run_id"], "report")}
    assert told == {"died-while-away"}, (
        "at least once: with SQLite, Airflow may give a trigger to two triggerers at first"
    )


def one_successor(airflow: RealAirflow) -> list[str]:
    """Of several, each would take the triggers of assets from the others, again and again."""
    airflow.start_part("triggerer", "triggerer-1")
    return []


def two_successors(airflow: RealAirflow, orders: SyncQueue, folder: Path) -> list[str]:
    """Triggerers that share the orders, and the jobs that were added to see that they do.

    There are three triggers, two of them on the orders. With room for one each, no triggerer has both of those; and one
    after the other, because with SQLite all could take the same one in the same moment.
    """
    names = ["triggerer-1", "triggerer-2", "triggerer-3"]
    for name in names:
        airflow.start_part("triggerer", name, "--capacity", "1")
        airflow.until_watching(name)
    return until_two_take_part(airflow, orders, folder, names)


def until_two_take_part(airflow: RealAirflow, orders: SyncQueue, folder: Path, triggerers: list[str]) -> list[str]:
    """Adds jobs until two of these triggerers have woken DAGs with them; a busy machine may starve one for long."""
    added: list[str] = []

    def both() -> bool:
        if not_acked(folder) < 40:
            more = [f"shared-{len(added) + n}" for n in range(20)]
            add(orders, more)
            added.extend(more)
        return sum(ORDERS in airflow.log(name) for name in triggerers) >= 2

    airflow.until(both, "two triggerers that take part", 120)
    return added
