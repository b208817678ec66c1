"""Values that Airflow finds hard to hold: NULs, megabytes, and lists within lists within lists."""

from __future__ import annotations

import asyncio
from typing import Any

import msgpack
import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from chasqui_engine import Job, Queue
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.triggers import message
from chasqui_provider.triggers.chasqui import ChasquiEventTrigger, ChasquiMessageTrigger
from chasqui_provider.waiting.results import JobDeadError, ResultExpiredError, ResultUnfitError
from tests.provider.helpers import worker, worker_thread
from tests.provider.integration.queue_state import State
from tests.support.waiting import until

Context = dict[str, Any]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


VALUES: dict[str, Any] = {
    "none": None,
    "nul": {"a\0b": "c\0d"},
    "bytes": b"\0\xff",
    "nan": [float("nan"), 1e23, 2**64 - 1],
    "large": {"text": "x" * 1_000_000, "raw": b"\0" * 1000},
    "wide": [[]] * 50_000,
    "deep": nested(60),
}


async def give(job: Job) -> Any:
    if job.name == "die":
        raise ValueError("be\0cause" * 10_000)
    return nested(500) if job.name == "too_deep" else VALUES[job.name]


def deferred_result(operator: Any, url: str, queue_name: str, context: Context) -> Any:
    """What the task returns that waits in the triggerer; the event goes through what Airflow's database would keep."""
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)

    async def fired() -> Any:
        async with worker(url, queue_name, give):
            events = [event async for event in deferred.value.trigger.run()]
        return events[0]

    deferred.value.trigger.not_before_s = 0.0  # type: ignore[attr-defined]
    event = asyncio.run(fired())
    assert len(repr(event)) < 300
    assert len(str(event.payload)) < 10_000
    return operator.execute_complete(context, event.payload)


def waiting(queue_name: str, name: str, deferrable: bool, **options: Any) -> ChasquiEnqueueOperator:
    return ChasquiEnqueueOperator(
        task_id="t",
        queue_name=queue_name,
        job_name=name,
        job_id=f"{name}-{deferrable}",
        wait_for_result=True,
        deferrable=deferrable,
        result_timeout=30,
        defer_after=0,
        **options,
    )


@pytest.mark.parametrize("name", VALUES)
def test_a_deferred_wait_returns_what_a_blocking_one_does(
    name: str, valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    with worker_thread(valkey_queue_url, queue_name, give):
        blocking = waiting(queue_name, name, False).execute(context)
        poked = ChasquiJobResultSensor(task_id="s", queue_name=queue_name, job_ids=f"{name}-False").execute(context)
    deferred = deferred_result(waiting(queue_name, name, True), valkey_queue_url, queue_name, context)
    assert blocking == poked == deferred
    assert "\0" not in str(blocking)


UNFIT = r"too_deep.*nested deeper than \d+ levels.*get_job_result"


def test_a_result_that_is_too_deep_fails_its_task_and_says_so(
    valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    blocking, deferred = (waiting(queue_name, "too_deep", deferrable) for deferrable in (False, True))
    with worker_thread(valkey_queue_url, queue_name, give), pytest.raises(ResultUnfitError, match=UNFIT):
        blocking.execute(context)
    with pytest.raises(ResultUnfitError, match=UNFIT):
        deferred_result(deferred, valkey_queue_url, queue_name, context)


def test_so_does_an_error_of_any_size(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    operator = waiting(queue_name, "die", True, attempts=1)
    with pytest.raises(JobDeadError, match="be\ufffdcause"):
        deferred_result(operator, valkey_queue_url, queue_name, context)


def test_a_large_result_that_is_gone_when_the_task_comes_for_it(
    valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    event = {"outcomes": [{"job_id": "gone", "status": "completed"}]}
    with pytest.raises(ResultExpiredError, match="gone"):
        waiting(queue_name, "large", True).execute_complete(context, event)


async def test_a_job_that_airflow_cannot_hold_is_buried_and_those_beside_it_are_told(
    queue: Queue, state: State
) -> None:
    jobs = {"a": nested(60), "deep": nested(400), "deepest": nested(510), "nul": "x\0y"}
    await queue.add_bulk([{"name": "o", "data": data, "job_id": job_id} for job_id, data in jobs.items()])
    events: Any = ChasquiMessageTrigger(queue.name, batch_size=4, linger=1.0).run()
    event = await asyncio.wait_for(anext(events), 20)
    told = {job["id"]: job["payload"] for job in event.payload["jobs"]}
    buried = [(msgpack.unpackb(one[b"d"])[0], one[b"detail"].decode()) for one in await state.dead()]
    await events.aclose()
    assert told == {"a": nested(60), "nul": "x\ufffdy"}
    assert [job_id for job_id, _ in buried] == ["deep", "deepest"]
    assert all("Airflow cannot hold the payload" in detail and "nested deeper" in detail for _, detail in buried)


async def test_an_id_and_a_name_are_told_as_airflow_can_hold_them(queue: Queue, state: State) -> None:
    await queue.add("na\0me", 1, job_id="i\0d")
    await queue.add("o", 2, job_id="good")
    events: Any = ChasquiMessageTrigger(queue.name, batch_size=2, linger=1.0).run()
    event = await asyncio.wait_for(anext(events), 20)
    await events.aclose()
    assert [(job["id"], job["name"]) for job in event.payload["jobs"]] == [("i\ufffdd", "na\ufffdme"), ("good", "o")]


async def test_such_a_job_that_is_turned_down_is_buried(
    queue: Queue, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Picky(ChasquiMessageTrigger):
        def accepts(self, payload: dict[str, Any]) -> bool:
            return bool(payload["jobs"][0]["id"] == "good")

    monkeypatch.setattr(message, "_STORED_AFTER_S", 0.1)
    await queue.add("o", 1, job_id="i\0d")
    await queue.add("o", 2, job_id="good")
    events: Any = Picky(queue.name, batch_size=2, linger=1.0).run()
    event = await asyncio.wait_for(anext(events), 20)
    more = asyncio.create_task(anext(events))
    await until(state.empty, "the end of both")
    more.cancel()
    await asyncio.gather(more, return_exceptions=True)
    assert [job["id"] for job in event.payload["jobs"]] == ["good"]
    assert [msgpack.unpackb(one[b"d"])[0] for one in await state.dead()] == ["i\0d"]


async def test_large_jobs_make_several_events(valkey_queue_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=valkey_queue_url) as queue:
        sizes = [100_000, 100_000, 100_000, 900_000, 10, 10]
        await queue.add_bulk([{"name": "o", "data": "x" * size, "job_id": str(n)} for n, size in enumerate(sizes)])
        events: Any = ChasquiMessageTrigger(queue_name, batch_size=100, linger=0.3).run()
        told: list[list[str]] = []
        while sum(map(len, told)) < len(sizes):
            event = await asyncio.wait_for(anext(events), 20)
            told.append([job["id"] for job in event.payload["jobs"]])
        await events.aclose()
    assert told == [["0", "1"], ["2"], ["3"], ["4", "5"]]


async def test_a_queue_event_with_anything_in_it_does_not_end_the_trigger(queue: Queue, state: State) -> None:
    events: Any = ChasquiEventTrigger(queue.name, from_start=True).run()
    await state.emit(e="completed", id="a", duration_us="9" * 5000)
    await state.emit(e="failed", id="b", reason="x\0y")
    told: list[Any] = []
    while len(told) < 2:
        event = await asyncio.wait_for(anext(events), 20)
        told += event.payload["events"]
    await events.aclose()
    assert [one["job_id"] for one in told] == ["a", "b"]
    assert told[1]["reason"] == "x\ufffdy"


async def test_an_events_fields_do_not_stand_for_what_it_is(queue: Queue, state: State) -> None:
    events: Any = ChasquiEventTrigger(queue.name, from_start=True).run()
    await state.emit(e="comple\0ted", id="a\0", n="n\0", event="x", job_id="x", job_name="x", entry_id="x")
    (told,) = (await asyncio.wait_for(anext(events), 20)).payload["events"]
    await events.aclose()
    assert told.pop("entry_id") != "x"
    assert told == {"event": "comple\ufffdted", "job_id": "a\ufffd", "job_name": "n\ufffd"}
