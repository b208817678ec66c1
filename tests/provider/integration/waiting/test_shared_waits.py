"""Waiting for results: sensor, trigger, and ten thousand waits at once."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException, AirflowSkipException
from airflow.sdk import DAG
from redis.asyncio import Redis

from chasqui_engine import Queue
from chasqui_provider.operators.chasqui import ChasquiEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.triggers.chasqui import ChasquiJobResultTrigger
from chasqui_provider.waiting.results import ChasquiUnavailableError, JobDeadError, ResultExpiredError
from chasqui_provider.waiting.shared_waits import _shared
from tests.provider.helpers import worker, worker_thread
from tests.servers import ServerProcess
from tests.support.consumers import Gate, consuming
from tests.support.waiting import until

Context = dict[str, Any]
MANY = 10_000


def add(url: str, queue_name: str, name: str, payload: Any = None, **options: Any) -> str:
    async def adding() -> str:
        async with Queue(queue_name, redis_url=url) as queue:
            return (await queue.add(name, payload, **options)).id

    return asyncio.run(adding())


def sensor(queue_name: str, **options: Any) -> ChasquiJobResultSensor:
    return ChasquiJobResultSensor(queue_name=queue_name, **{"task_id": "s", "poke_interval": 0.1, **options})


async def fire(trigger: ChasquiJobResultTrigger) -> Any:
    async for event in trigger.run():
        return event.payload
    raise AssertionError("the trigger ended without an event")


class TestSensor:
    def test_one_and_many(self, queue_url: str, queue_name: str, context: Context) -> None:
        ids = [add(queue_url, queue_name, "d", {"n": n}) for n in range(3)]
        with worker_thread(queue_url, queue_name):
            assert sensor(queue_name, job_ids=ids[2]).execute(context) == 4
            assert sensor(queue_name, job_ids=ids).execute(context) == [0, 2, 4]

    def test_not_yet_there(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        add(valkey_queue_url, queue_name, "d", {"n": 1}, job_id="x")
        assert not sensor(queue_name, job_ids="x").poke(context)

    def test_a_dead_job_fails_at_once(self, queue_url: str, queue_name: str, context: Context) -> None:
        add(queue_url, queue_name, "d", {"n": 1}, job_id="never", delay_ms=3_600_000)
        add(queue_url, queue_name, "die", job_id="dead")
        with worker_thread(queue_url, queue_name):
            with pytest.raises(JobDeadError, match=r"dead after 1 run.*no such luck"):
                sensor(queue_name, job_ids=["never", "dead"]).execute(context)
            with pytest.raises(AirflowSkipException):
                sensor(queue_name, job_ids="dead", soft_fail=True).execute(context)
            returned = sensor(queue_name, job_ids="dead", on_dead="return").execute(context)
        assert (returned["status"], returned["reason"]) == ("dead", "unrecoverable")

    def test_an_expired_result_is_told_from_one_to_come(
        self, queue_url: str, queue_name: str, context: Context
    ) -> None:
        job_id = add(queue_url, queue_name, "d", {"n": 1})
        with worker_thread(queue_url, queue_name):
            sensor(queue_name, job_ids=job_id).execute(context)

        async def forget() -> None:
            async with Redis.from_url(queue_url) as client:
                await client.delete(f"{{chasqui:{queue_name}}}:result:{job_id}")

        asyncio.run(forget())
        with pytest.raises(ResultExpiredError, match="expired"):
            sensor(queue_name, job_ids=job_id).execute(context)

    @pytest.mark.parametrize(
        ("last", "since_ms", "status"),
        [("completed", 0, "expired"), ("dlq", 0, "dead"), ("active", 0, None), ("completed", 5_000, None)],
    )
    async def test_the_events_tell_of_old_ends(
        self, last: str, since_ms: int, status: str | None, valkey_queue_url: str, queue_name: str
    ) -> None:
        events = f"{{chasqui:{queue_name}}}:events"
        async with Redis.from_url(valkey_queue_url) as client:
            told = [("failed", {"reason": "boom"}), ("completed", {}), (last, {"reason": "unrecoverable"})]
            for place, (event, fields) in enumerate(told, 1):
                entry = {"e": event, "id": "old", "ts": "1000", "attempt": "1", **fields}
                await client.xadd(events, entry, id=f"{place}-0")
        trigger = ChasquiJobResultTrigger(["old"], queue_name, since_ms=since_ms)
        if status is None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(fire(trigger), 4)
            return
        (outcome,) = (await asyncio.wait_for(fire(trigger), 20))["outcomes"]
        assert outcome["status"] == status
        if status == "dead":
            assert (outcome["reason"], outcome["detail"]) == ("unrecoverable", "boom")

    def test_no_server_is_no_skip(self, connect: Any, queue_name: str, context: Context) -> None:
        connect(extra={"speling": 1})
        with pytest.raises(ChasquiUnavailableError):
            sensor(queue_name, job_ids="x", soft_fail=True).execute(context)
        with pytest.raises(ChasquiUnavailableError):
            sensor(queue_name, job_ids="x", soft_fail=True).resume_execution(
                "execute_complete", {"event": {"error": "gone"}}, context
            )
        assert not issubclass(ChasquiUnavailableError, AirflowException)

    def test_resumes(self, queue_name: str, context: Context) -> None:
        deferrable = sensor(queue_name, job_ids=["a", "b"], deferrable=True, soft_fail=True)
        outcomes = [{"job_id": name, "status": "completed", "result_json": f'"{name}"'} for name in "ab"]
        resumed = {"event": {"outcomes": outcomes}}
        assert deferrable.resume_execution("execute_complete", resumed, context) == ["a", "b"]
        dead = {"job_id": "a", "status": "dead", "reason": "r", "detail": "d", "attempt": 1}
        with pytest.raises(AirflowSkipException):
            deferrable.resume_execution("execute_complete", {"event": {"outcomes": [dead]}}, context)

    def test_starts_in_the_triggerer(self, queue_name: str) -> None:
        deferrable = sensor(queue_name, job_ids=["a", "b"], deferrable=True, timeout=7)
        assert deferrable.start_from_trigger
        assert deferrable.start_trigger_args is not None
        assert deferrable.start_trigger_args.timeout is not None
        assert deferrable.start_trigger_args.timeout.total_seconds() == 7
        trigger = ChasquiJobResultTrigger(**(deferrable.start_trigger_args.trigger_kwargs or {}))
        assert set(deferrable.template_fields) <= set(vars(trigger))
        assert not sensor(queue_name, job_ids="x").start_from_trigger

    def test_starts_in_a_worker_where_something_is_to_be_filled_in(self, queue_name: str) -> None:
        with DAG("fan_in", schedule=None):
            ones = [ChasquiEnqueueOperator(task_id=name, queue_name=queue_name) for name in "ab"]
            waits = [
                sensor(queue_name, job_ids=ones[0].output, deferrable=True, task_id="xcom"),
                sensor(queue_name, job_ids=[one.output for one in ones], deferrable=True, task_id="xcoms"),
                sensor(queue_name, job_ids=["a", ("{{ ti.xcom_pull('b') }}",)], deferrable=True, task_id="template"),
                sensor("{% if x %}q{% endif %}", job_ids="a", deferrable=True, task_id="queue"),
            ]
        assert [wait.start_from_trigger for wait in waits] == [False] * 4
        assert waits[1].upstream_task_ids == {"a", "b"}

    @pytest.mark.parametrize("none", [[], (), "[]", " [] "])
    @pytest.mark.parametrize("deferrable", [False, True])
    async def test_nothing_to_wait_for(
        self, none: Any, deferrable: bool, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        assert sensor(queue_name, job_ids=none, deferrable=deferrable).execute(context) == []
        event = await fire(ChasquiJobResultTrigger(none, queue_name))
        assert sensor(queue_name, job_ids=none).execute_complete(context, event) == []


class TestTrigger:
    async def test_survives_serialization(self) -> None:
        trigger = ChasquiJobResultTrigger(["a"], "q", on_dead="return", on_kill="abort", since_ms=3, not_before_s=4.5)
        path, kwargs = trigger.serialize()
        assert path == "chasqui_provider.triggers.chasqui.ChasquiJobResultTrigger"
        assert ChasquiJobResultTrigger(**kwargs).serialize() == (path, kwargs)

    async def test_fires(self, queue_url: str, queue_name: str) -> None:
        async with Queue(queue_name, redis_url=queue_url) as queue, worker(queue_url, queue_name):
            job = await queue.add("d", {"n": 21})
            event = await fire(ChasquiJobResultTrigger([job.id], queue_name))
            assert event == {"outcomes": [{"job_id": job.id, "status": "completed", "result_json": "42"}]}
            await queue.add("die", None, job_id="dead")
            event = await fire(ChasquiJobResultTrigger([job.id, "dead", "unknown"], queue_name))
            assert event["outcomes"][-1]["status"] == "dead"

    async def test_says_what_is_wrong(self, connect: Any, queue_name: str) -> None:
        connect(extra={"speling": 1})
        assert "speling" in (await fire(ChasquiJobResultTrigger(["x"], queue_name)))["error"]
        assert "nobody" in (await fire(ChasquiJobResultTrigger(["x"], queue_name, "nobody_made_it")))["error"]

    async def test_rides_out_an_outage(self, connect: Any, queue_name: str) -> None:
        with ServerProcess(extra_args=("--appendonly", "yes", "--appendfsync", "always")) as server:
            connect(url=server.url)
            async with Queue(queue_name, redis_url=server.url) as queue:
                job = await queue.add("d", {"n": 1})
            server.stop()
            waiting = asyncio.create_task(fire(ChasquiJobResultTrigger([job.id], queue_name)))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            server.start()
            async with worker(server.url, queue_name):
                assert (await asyncio.wait_for(waiting, 20))["outcomes"][0]["result_json"] == "2"

    async def test_on_kill_takes_a_delayed_job_back(self, queue_url: str, queue_name: str) -> None:
        async with Queue(queue_name, redis_url=queue_url) as queue:
            for job_id in ("keep", "drop"):
                await queue.add("d", None, job_id=job_id, delay_ms=3_600_000)
            await ChasquiJobResultTrigger(["keep"], queue_name).on_kill()
            await ChasquiJobResultTrigger(["drop"], queue_name, cancel_on_kill=True).on_kill()
            assert await queue.cancel_delayed("keep")
            assert not await queue.cancel_delayed("drop")

    async def test_on_kill_aborts_a_running_job(self, queue_url: str, queue_name: str) -> None:
        async with Queue(queue_name, redis_url=queue_url) as queue, consuming(queue_url, queue_name, gate := Gate()):
            job = await queue.add("d", 1)
            await until(lambda: gate.started, "a run")
            trigger = ChasquiJobResultTrigger([job.id], queue_name, on_kill="abort")
            ended = asyncio.create_task(fire(trigger))
            await trigger.on_kill()
            [outcome] = (await asyncio.wait_for(ended, 20))["outcomes"]
            assert (outcome["status"], outcome["reason"]) == ("dead", "aborted")
            assert gate.finished == []

    @pytest.mark.parametrize(
        ("state", "is_cleared", "left"),
        [("deferred", False, True), ("deferred", True, False), ("failed", False, False), (None, False, False)],
    )
    async def test_on_kill_leaves_jobs_that_another_triggerer_waits_for(
        self,
        state: str | None,
        is_cleared: bool,
        left: bool,
        valkey_queue_url: str,
        queue_name: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Airflow calls `on_kill` in a triggerer that was silent too, when it finds its triggers given away."""
        task = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=2)
        states = lambda **_: {"r": {"t": state}}  # noqa: E731
        monkeypatch.setattr("chasqui_provider.triggers.result.RuntimeTaskInstance.get_task_states", states)
        job_id = "airflow:d:r:t:-1:clear-1"
        async with Queue(queue_name, redis_url=valkey_queue_url) as queue:
            await queue.add("d", None, job_id=job_id, delay_ms=3_600_000)
            if is_cleared:
                await queue.add("d", None, job_id="airflow:d:r:t:-1:clear-2", delay_ms=3_600_000)
            trigger = ChasquiJobResultTrigger([job_id], queue_name, on_kill="abort")
            trigger.task_instance = task
            await trigger.on_kill()
            assert await queue.cancel_delayed(job_id) == left

    async def test_cleanup_takes_nothing_back(self, valkey_queue_url: str, queue_name: str) -> None:
        async with Queue(queue_name, redis_url=valkey_queue_url) as queue:
            await queue.add("d", None, job_id="x", delay_ms=3_600_000)
            trigger = ChasquiJobResultTrigger(["x"], queue_name, on_kill="abort")
            waiting = asyncio.create_task(fire(trigger))
            await asyncio.sleep(0.1)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await trigger.cleanup()
            assert await queue.cancel_delayed("x")


async def connections(client: Redis, queue_name: str) -> int:
    return sum(queue_name in one["name"] for one in await client.client_list())


@pytest.mark.timeout(180)
async def test_ten_thousand_waits_on_three_connections(valkey_queue_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=valkey_queue_url) as queue:
        jobs = await queue.add_bulk([{"name": "d", "data": {"n": n}} for n in range(MANY)])
    async with Redis.from_url(valkey_queue_url, decode_responses=True) as client:
        waits = [asyncio.create_task(fire(ChasquiJobResultTrigger([job.id], queue_name))) for job in jobs]
        await until(lambda: connections(client, queue_name), "connections", timeout_s=90)
        most = 0
        for _ in range(40):  # long enough for the look into the past to be among them
            most = max(most, await connections(client, queue_name))
            await asyncio.sleep(0.1)
        assert 1 <= most <= 3
        started = time.monotonic()
        async with worker(valkey_queue_url, queue_name):
            events = await asyncio.wait_for(asyncio.gather(*waits), 120)
        took_s = time.monotonic() - started
    assert [event["outcomes"][0]["result_json"] for event in events] == [str(2 * n) for n in range(MANY)]
    assert not _shared[asyncio.get_running_loop()], "the last wait closes what was shared"
    print(f"{MANY} waits on {most} connections, all told {took_s:.1f} s after the worker began")
