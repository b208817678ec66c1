"""DAGs on what happens on a queue."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse

from chasqui_engine import Queue
from chasqui_provider.triggers import event as module
from chasqui_provider.triggers.chasqui import ChasquiEventTrigger
from tests.provider.helpers import worker
from tests.support.waiting import until


class OldStore:
    """The state store of an asset in Airflow 3.3.0 and 3.3.1: it blocks, and refuses the thread of the event loop."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self._loop_thread = threading.get_ident()

    def get(self, key: str, default: Any = None) -> Any:
        assert threading.get_ident() != self._loop_thread
        return self.kept.get(key, default)

    def set(self, key: str, value: Any) -> None:
        assert threading.get_ident() != self._loop_thread
        self.kept[key] = value

    def is_past(self, entry_id: str) -> bool:
        """Whether the place that is kept is that of an entry, or a later one."""
        (place,) = self.kept.values()
        return _parts(place) >= _parts(entry_id)


class Store(OldStore):
    """One since Airflow 3.3.2."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))
        self.kept[key] = value


def _parts(entry_id: str) -> list[int]:
    return [int(part) for part in entry_id.split("-")]


@asynccontextmanager
async def following(trigger: ChasquiEventTrigger, store: OldStore | None = None) -> AsyncIterator[list[dict[str, Any]]]:
    told: list[dict[str, Any]] = []
    store = store or Store()
    trigger.asset_state_store = store  # type: ignore[assignment]

    async def follow() -> None:
        async for event in trigger.run():
            told.extend(json.loads(json.dumps(event.payload))["events"])

    task = asyncio.create_task(follow())
    try:
        # From the place that is kept first, nothing is missed.
        await until(lambda: store.kept, "the trigger to begin")
        yield told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_filters(queue_url: str, queue_name: str) -> None:
    trigger = ChasquiEventTrigger(queue_name, events=["dlq", "completed"], job_id_prefix="a-", linger=0)
    only_dead = ChasquiEventTrigger(queue_name, events=["dlq"], job_names=["die"], linger=0)
    async with (
        Queue(queue_name, redis_url=queue_url) as queue,
        following(trigger) as told,
        following(only_dead) as dead,
        worker(queue_url, queue_name),
    ):
        await queue.add("d", {"n": 1}, job_id="a-1")
        await queue.add("d", {"n": 1}, job_id="b-1")
        await queue.add("die", None, job_id="a-2")
        await until(lambda: len(told) == 2 and dead, "the events")
        assert {(event["event"], event["job_id"]) for event in told} == {("completed", "a-1"), ("dlq", "a-2")}
        assert [(event["job_id"], event["reason"], event["job_name"]) for event in dead] == [
            ("a-2", "unrecoverable", "die")
        ]


@pytest.mark.parametrize("kind", [Store, OldStore])
async def test_resumes_where_it_stopped(
    queue_url: str, queue_name: str, monkeypatch: pytest.MonkeyPatch, kind: type[OldStore]
) -> None:
    monkeypatch.setattr(module, "_STORED_AFTER_S", 0.2)
    store = kind()
    options = {"events": ["completed"], "linger": 0}
    async with Queue(queue_name, redis_url=queue_url) as queue, worker(queue_url, queue_name):
        async with following(ChasquiEventTrigger(queue_name, **options), store) as told:
            assert store.kept, "the start is kept, so that a restart before the first event loses nothing"
            await queue.add("d", {"n": 1}, job_id="one")
            await until(lambda: [event["job_id"] for event in told] == ["one"], "the first")
            await until(lambda: store.is_past(told[0]["entry_id"]), "its place")
        job = await queue.add("d", {"n": 1}, job_id="two")
        await job.wait_for_result()
        async with following(ChasquiEventTrigger(queue_name, **options), store) as told:
            await until(lambda: [event["job_id"] for event in told] == ["two"], "what happened meanwhile")


async def test_a_place_that_could_not_be_kept_is_kept_later(
    valkey_queue_url: str, queue_name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_STORED_AFTER_S", 0.2)
    store = Store()
    async with (
        Queue(queue_name, redis_url=valkey_queue_url) as queue,
        worker(valkey_queue_url, queue_name),
        following(ChasquiEventTrigger(queue_name, events="completed", linger=0), store) as told,
    ):
        store.failures = 2
        await queue.add("d", {"n": 1}, job_id="one")
        await until(lambda: told, "the event")
        await until(lambda: store.is_past(told[0]["entry_id"]), "its place")
    assert caplog.text.count("is not stored yet") == 2


def test_events_that_there_are_not_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown events: 'ded'; known are waiting, .*dlq"):
        ChasquiEventTrigger("q", events=["ded"])
    with pytest.raises(ValueError, match="batch_size must be a whole number from 1 up, got '10'"):
        ChasquiEventTrigger("q", batch_size="10")  # type: ignore[arg-type]


async def test_what_may_not_be_stored_is_told_again(queue_url: str, queue_name: str) -> None:
    store = Store()
    for _ in range(2):
        async with (
            Queue(queue_name, redis_url=queue_url) as queue,
            following(ChasquiEventTrigger(queue_name, events=["completed"], linger=0), store) as told,
            worker(queue_url, queue_name),
        ):
            await queue.add("d", {"n": 1}, job_id="one")
            await until(lambda: [event["job_id"] for event in told] == ["one"], "the event")


async def test_from_the_start_and_in_batches(valkey_queue_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=valkey_queue_url) as queue, worker(valkey_queue_url, queue_name):
        jobs = await queue.add_bulk([{"name": "d", "data": {"n": n}} for n in range(30)])
        await asyncio.gather(*(job.wait_for_result() for job in jobs))
        trigger = ChasquiEventTrigger(queue_name, events=["completed"], from_start=True, batch_size=1000)
        async with following(trigger) as told:
            await until(lambda: len(told) == 30, "all")


def test_survives_serialization() -> None:
    trigger = ChasquiEventTrigger("q", "c", events=["dlq"], job_names=["a"], job_id_prefix="x", from_start=True)
    path, kwargs = trigger.serialize()
    assert path == "chasqui_provider.triggers.chasqui.ChasquiEventTrigger"
    assert ChasquiEventTrigger(**json.loads(json.dumps(kwargs))).serialize() == (path, kwargs)
    with pytest.raises(ValueError, match="batch_size"):
        ChasquiEventTrigger("q", batch_size=0)
