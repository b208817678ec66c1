"""A wait goes to the triggerer only if the job is not quick, and comes back only when Airflow knows that it went."""

from __future__ import annotations

import time
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import pytest
from airflow.exceptions import AirflowRescheduleException
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred
from packaging.version import Version
from redis import Redis

from chasqui_engine import ConfigError
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.triggers.chasqui import ChasquiJobResultTrigger
from chasqui_provider.waiting.results import JobDeadError
from chasqui_provider.waiting.usual_duration import JobDurations, read_durations
from tests.provider.helpers import worker_thread

Context = dict[str, Any]
AIRFLOW_HEARS_AFTER_S = 5

AIRFLOW = Version(version("apache-airflow-core"))
needs_closed_race = pytest.mark.skipif(Version("3.2.2") > AIRFLOW, reason="Airflow 3.2.2 closed the race for Celery")
local_race_is_closed = Version("3.4.0b2") <= AIRFLOW
LONGEST_S = 5 if local_race_is_closed else 13
"""That a worker waits by itself: as long as deferring takes."""


def enqueue(queue_name: str, **options: Any) -> ChasquiEnqueueOperator:
    options = {"task_id": "e", "wait_for_result": True, "deferrable": True, **options}
    return ChasquiEnqueueOperator(queue_name=queue_name, **options)


def sensor(queue_name: str, **options: Any) -> ChasquiJobResultSensor:
    return ChasquiJobResultSensor(queue_name=queue_name, **{"task_id": "s", "deferrable": True, **options})


def both_waits(queue_name: str, **options: Any) -> list[Any]:
    return [enqueue(queue_name, job_id="x", **options), sensor(queue_name, job_ids="{{ 'x' }}", **options)]


def tell_of_completed(url: str, queue_name: str, job_name: str, took_s: list[float]) -> None:
    """Events as workers tell them of jobs that took so long."""
    with Redis.from_url(url) as client:
        for seconds in took_s:
            told = {
                "e": "completed",
                "id": "j",
                "n": job_name,
                "ts": 1,
                "attempt": 1,
                "duration_us": int(seconds * 1e6),
            }
            client.xadd(f"{{chasqui:{queue_name}}}:events", told)  # type: ignore[arg-type]


def deferred_trigger(operator: Any, context: Context) -> ChasquiJobResultTrigger:
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    trigger = deferred.value.trigger
    assert isinstance(trigger, ChasquiJobResultTrigger)
    return trigger


def test_a_quick_job_is_waited_for_in_the_worker(queue_url: str, queue_name: str, context: Context) -> None:
    with worker_thread(queue_url, queue_name):
        assert enqueue(queue_name, job_name="d", payload={"n": 4}, job_id="four").execute(context) == 8
        assert sensor(queue_name, job_ids="four").execute(context) == 8
        assert sensor(queue_name, job_ids=["four"]).execute(context) == [8]


def test_so_is_one_that_dies(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    with worker_thread(valkey_queue_url, queue_name):
        with pytest.raises(JobDeadError, match="no such luck"):
            enqueue(queue_name, job_name="die", job_id="dead").execute(context)
        with pytest.raises(JobDeadError, match="no such luck"):
            sensor(queue_name, job_ids="dead").execute(context)
        with pytest.raises(AirflowSkipException):
            sensor(queue_name, job_ids="dead", soft_fail=True).execute(context)


@pytest.mark.skipif(local_race_is_closed, reason="Airflow 3.4 tells the news apart")
def test_a_wait_comes_back_only_when_the_executor_has_heard_of_it(
    valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    begun_s = time.time()
    for wait in both_waits(queue_name, defer_after=0):
        assert deferred_trigger(wait, context).not_before_s > begun_s + AIRFLOW_HEARS_AFTER_S


def test_but_always_before_its_timeout(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    once = {"task_id": "w", "defer_after": 0}
    for wait in (
        enqueue(queue_name, result_timeout=4, **once),
        sensor(queue_name, job_ids="{{ 1 }}", timeout=4, **once),
    ):
        assert deferred_trigger(wait, context).not_before_s < time.time() + 2


@needs_closed_race
@pytest.mark.parametrize(
    ("configured", "executor"),
    [
        *([("LocalExecutor", None)] if local_race_is_closed else []),
        ("CeleryExecutor", None),
        ("airflow.providers.celery.executors.celery_executor.CeleryExecutor,LocalExecutor", None),
        ("LocalExecutor,CeleryExecutor", "CeleryExecutor"),
        ("LocalExecutor,far:airflow.providers.celery.executors.celery_executor.CeleryExecutor;team=X", "far"),
    ],
)
def test_where_the_race_is_closed_it_comes_back_as_soon_as_its_jobs_have_ended(
    configured: str, executor: str | None, queue_name: str, connect: Any, context: Context, monkeypatch: Any
) -> None:
    connect(url="redis://127.0.0.1:1")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", configured)
    wait = sensor(queue_name, job_ids="{{ 1 }}", executor=executor, defer_after=0)
    assert deferred_trigger(wait, context).not_before_s <= time.time()


@pytest.mark.parametrize("executor", ["LocalExecutor", "CeleryExecutor"])
def test_pokes_without_a_slot_are_no_closer_than_the_news_of_them(
    executor: str, valkey_queue_url: str, queue_name: str, context: Context, monkeypatch: Any
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    context["ti"].get_first_reschedule_date = lambda _context: None
    wait = sensor(queue_name, job_ids="x", deferrable=False, mode="reschedule", poke_interval=3)
    with pytest.raises(AirflowRescheduleException) as rescheduled:
        wait.execute(context)
    assert rescheduled.value.reschedule_date.timestamp() == pytest.approx(time.time() + 8, abs=1)


def has_waited(begun_s: float, seconds: float) -> bool:
    """Not less, and not much more: a busy machine is late, but by less than what the next longer wait would take."""
    return seconds - 0.1 <= time.monotonic() - begun_s < seconds + 2.5


@pytest.mark.parametrize(("took_s", "waited_s"), [([180.0] * 3, 0), ([0.2] * 3 + [180.0], 1.3), ([], LONGEST_S / 3)])
def test_a_worker_waits_as_long_as_such_jobs_take_unless_that_is_long(
    took_s: list[float], waited_s: float, valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    tell_of_completed(valkey_queue_url, queue_name, "of this name", took_s)
    tell_of_completed(valkey_queue_url, queue_name, "another", [60.0] * 9)
    begun_s = time.monotonic()
    deferred_trigger(enqueue(queue_name, job_name="of this name"), context)
    assert has_waited(begun_s, waited_s)


def test_a_sensor_goes_by_all_jobs_of_the_queue(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    tell_of_completed(valkey_queue_url, queue_name, "any", [180.0])
    begun_s = time.monotonic()
    deferred_trigger(sensor(queue_name, job_ids=["x"]), context)
    assert time.monotonic() - begun_s < 0.6


def test_an_argument_says_how_long_a_worker_waits(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    tell_of_completed(valkey_queue_url, queue_name, "any", [180.0])
    for wait in both_waits(queue_name, defer_after=timedelta(seconds=1.5)):
        begun_s = time.monotonic()
        deferred_trigger(wait, context)
        assert has_waited(begun_s, 1.5)
    assert not sensor(queue_name, job_ids="x", defer_after=1).start_from_trigger
    with pytest.raises(ConfigError, match="defer_after must not be negative, got -1"):
        enqueue(queue_name, defer_after=-1)


def tell_of_running(url: str, queue_name: str, job_name: str, seconds: float, job_id: str = "running") -> None:
    """An event as a worker told it when it began with a job so long ago."""
    with Redis.from_url(url) as client:
        event = {"e": "active", "id": job_id, "n": job_name, "ts": 1, "attempt": 1}
        entry_id = f"{int((time.time() - seconds) * 1000)}-0"
        client.xadd(f"{{chasqui:{queue_name}}}:events", event, id=entry_id)  # type: ignore[arg-type]


@pytest.mark.parametrize(("running_s", "waited_s"), [(60, 0), (1, LONGEST_S)])
def test_without_completed_jobs_a_worker_goes_by_those_that_run(
    running_s: float, waited_s: float, valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    tell_of_running(valkey_queue_url, queue_name, "of this name", running_s)
    begun_s = time.monotonic()
    deferred_trigger(enqueue(queue_name, job_name="of this name"), context)
    assert has_waited(begun_s, waited_s)


async def test_how_long_jobs_take_is_told_by_those_that_ended_last(valkey_queue_url: str, queue_name: str) -> None:
    async def usual_s(job_name: str | None = None) -> float | None:
        return (await read_durations(valkey_queue_url, queue_name, job_name)).usual_s

    assert await read_durations(valkey_queue_url, queue_name) == JobDurations(None, 0.0)
    tell_of_completed(valkey_queue_url, queue_name, "a", [90.0] * 50 + [1.0, 2.0, 3.0, 4.0])
    assert await usual_s("b") is None
    assert await usual_s("a") == 90.0
    tell_of_completed(valkey_queue_url, queue_name, "b", [1.0, 2.0, 3.0, 4.0])
    assert await usual_s("b") == 3.0
    tell_of_completed(valkey_queue_url, queue_name, "a", [0.5] * 50)
    assert await usual_s() == 0.5


async def test_running_jobs_count_from_their_last_start(valkey_queue_url: str, queue_name: str) -> None:
    for job_id, seconds in (("restarted", 90), ("ended", 80), ("restarted", 20)):
        tell_of_running(valkey_queue_url, queue_name, "a", seconds, job_id)
    with Redis.from_url(valkey_queue_url) as client:
        client.xadd(f"{{chasqui:{queue_name}}}:events", {"e": "failed", "id": "ended", "n": "a", "ts": 1})
    known = await read_durations(valkey_queue_url, queue_name, "a")
    assert known.usual_s is None
    assert known.running_s == pytest.approx(20, abs=1)


def test_for_a_job_of_later_no_worker_waits(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    begun_s = time.monotonic()
    deferred_trigger(enqueue(queue_name, delay=3600), context)
    assert time.monotonic() - begun_s < 0.9


def test_a_server_that_is_away_is_left_to_the_triggerer(connect: Any, context: Context) -> None:
    connect(url="redis://127.0.0.1:1")
    deferred_trigger(sensor("any", job_ids="x"), context)


@pytest.mark.parametrize("held_s", [0.0, 0.5])
async def test_a_trigger_does_not_fire_too_early(held_s: float, valkey_queue_url: str, queue_name: str) -> None:
    begun_s = time.time()
    events = [event async for event in ChasquiJobResultTrigger([], queue_name, not_before_s=begun_s + held_s).run()]
    assert [event.payload for event in events] == [{"outcomes": []}]
    assert held_s <= time.time() - begun_s < held_s + 0.4
