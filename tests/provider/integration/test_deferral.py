"""A wait goes to the triggerer only if the job is not quick, and comes back only when Airflow knows that it went."""

from __future__ import annotations

import time
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowSkipException, TaskDeferred

from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator
from chasqui_provider.results import JobDeadError
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.triggers.chasqui import ChasquiJobResultTrigger
from tests.provider.helpers import worker_thread

Context = dict[str, Any]
AIRFLOW_HEARS_AFTER_S = 5


def enqueue(queue_name: str, **options: Any) -> ChasquiEnqueueOperator:
    options = {"task_id": "e", "wait_for_result": True, "deferrable": True, **options}
    return ChasquiEnqueueOperator(queue_name=queue_name, **options)


def sensor(queue_name: str, **options: Any) -> ChasquiJobResultSensor:
    return ChasquiJobResultSensor(queue_name=queue_name, **{"task_id": "s", "deferrable": True, **options})


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


def test_a_wait_comes_back_only_when_the_executor_has_heard_of_it(
    valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    begun_s = time.time()
    for wait in (enqueue(queue_name, job_id="x"), sensor(queue_name, job_ids="x")):
        assert deferred_trigger(wait, context).not_before_s > begun_s + AIRFLOW_HEARS_AFTER_S
        begun_s = time.time()


def test_but_always_before_its_timeout(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    for wait in (enqueue(queue_name, job_id="x", result_timeout=4), sensor(queue_name, job_ids="x", timeout=4)):
        assert deferred_trigger(wait, context).not_before_s < time.time() + 2


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
    assert [event.payload for event in events] == [{"endings": []}]
    assert held_s <= time.time() - begun_s < held_s + 0.4
