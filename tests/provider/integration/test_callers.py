"""The notifier, the functions of a worker, and the snapshot of a queue's specs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chasqui_engine import HandlerError, Job, Queue, SyncQueue, UnrecoverableError
from chasqui_provider.assets import triggering_events, triggering_jobs
from chasqui_provider.notifications.chasqui import ChasquiNotifier
from chasqui_provider.operators import manage
from chasqui_provider.operators.chasqui import ChasquiSnapshotRepeatablesOperator, ChasquiUpsertRepeatableOperator
from chasqui_provider.task_functions import TaskFunctions
from chasqui_provider.timetables.snapshot import snapshot_variable
from tests.provider.helpers import worker
from tests.support.waiting import until

Context = dict[str, Any]


class TestNotifier:
    async def taken(self, url: str, queue_name: str) -> Job:
        jobs: list[Job] = []

        async def take(job: Job) -> None:
            jobs.append(job)

        async with worker(url, queue_name, take):
            await until(lambda: jobs, "the job")
        return jobs[0]

    async def test_about_a_failure(self, queue_url: str, queue_name: str, context: Context) -> None:
        failed = {**context, "exception": ValueError("boom")}
        ChasquiNotifier(queue_name=queue_name).notify(failed)
        job = await self.taken(queue_url, queue_name)
        assert job.name == "airflow.notification"
        assert job.payload["error"] == "boom"
        assert (job.payload["dag_id"], job.payload["task_id"], job.payload["try_number"]) == ("a_dag", "a_task", 1)

    async def test_templates_and_ids(self, queue_url: str, queue_name: str, context: Context) -> None:
        for _ in range(2):
            notifier = ChasquiNotifier(
                queue_name=queue_name, job_name="done", payload={"who": "{{ ti.dag_id }}"}, job_id="{{ ti.run_id }}"
            )
            notifier({**context, "dag": None})
        job = await self.taken(queue_url, queue_name)
        assert (job.name, job.payload, job.id) == ("done", {"who": "a_dag"}, "manual__1")

    async def test_without_blocking(self, queue_url: str, queue_name: str, context: Context) -> None:
        await ChasquiNotifier(queue_name=queue_name, payload=[1], context=context)  # type: ignore[misc]
        assert (await self.taken(queue_url, queue_name)).payload == [1]


class TestFunctions:
    async def test_only_registered_functions_run(self, queue_url: str, queue_name: str) -> None:
        functions = TaskFunctions()

        @functions.register
        def add(a: int, b: int = 1) -> int:
            return a + b

        @functions.register(name="shout")
        async def loud(text: str) -> str:
            return text.upper()

        functions.register(SimpleNamespace(function=len, __name__="x"), name="len")
        assert functions.names == ["add", "len", "shout"]

        def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
            return {"args": list(args), "kwargs": kwargs}

        async with Queue(queue_name, redis_url=queue_url) as queue, worker(queue_url, queue_name, functions.handler):
            for name, payload, result in [
                ("add", call(1), 2),
                ("add", call(1, b=4), 5),
                ("shout", call("hey"), "HEY"),
                ("len", call("four"), 4),
            ]:
                assert await (await queue.add(name, payload)).wait_for_result() == result

    @pytest.mark.parametrize("payload", [["no", "call"], {"args": [], "kwargs": {}, "module": "os"}, None])
    def test_a_payload_that_is_no_call_is_dead(self, payload: Any) -> None:
        functions = TaskFunctions()
        functions.register(lambda: None, name="known")
        with pytest.raises(UnrecoverableError, match="must be a mapping of 'args' and 'kwargs' only"):
            functions.handler(Job.new(payload, name="known"))

    @pytest.mark.parametrize(("name", "argument"), [("os.system", "true"), ("__import__", "os")])
    def test_an_unknown_name_runs_nothing_and_is_retried(self, name: str, argument: str) -> None:
        functions = TaskFunctions()
        functions.register(lambda: None, name="known")
        with pytest.raises(HandlerError, match=r"no handler for jobs named .*; there are known"):
            functions.handler(Job.new({"args": [argument], "kwargs": {}}, name=name))

    async def test_what_has_to_be_awaited_is(self) -> None:
        class Adder:
            async def __call__(self, a: int, b: int) -> int:
                return a + b

        async def double(a: int) -> int:
            return 2 * a

        functions = TaskFunctions()
        functions.register(Adder(), name="add")
        functions.register(lambda a: double(a + 1), name="double")
        handle: Any = functions.handler
        assert await handle(Job.new({"args": [1, 2], "kwargs": {}}, name="add")) == 3
        assert await handle(Job.new({"args": [3], "kwargs": {}}, name="double")) == 8

    def test_a_name_is_taken_once(self) -> None:
        functions = TaskFunctions()
        functions.register(len)
        with pytest.raises(ValueError, match="already"):
            functions.register(len)


def test_snapshot(queue_url: str, queue_name: str, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, Any] = {}
    monkeypatch.setattr(manage.Variable, "set", lambda name, value, **_: kept.update({name: value}))
    ChasquiUpsertRepeatableOperator(task_id="u", queue_name=queue_name, job_name="tick", every_ms=60_000).execute(
        context
    )
    keys = ChasquiSnapshotRepeatablesOperator(task_id="s", queue_name=queue_name).execute(context)
    assert keys == ["tick::every:60000"]
    (spec,) = kept[snapshot_variable(queue_name)]
    assert spec["pattern"]["interval_ms"] == 60_000
    with SyncQueue(queue_name, redis_url=queue_url) as queue:
        assert queue.get_repeatable_jobs()[0].next_fire_ms == spec["next_fire_ms"]


def test_what_woke_a_run() -> None:
    def event(payload: Any) -> SimpleNamespace:
        return SimpleNamespace(extra={"from_trigger": True, "payload": payload})

    jobs = [{"id": name, "created_at_ms": 1, "attempt": 0} for name in ("a", "b")]
    context = {
        "triggering_asset_events": {
            "one": [event({"jobs": jobs}), event({"jobs": jobs[:1]}), SimpleNamespace(extra=None)],
            "two": [event({"events": [{"entry_id": "1-0"}, {"entry_id": "1-0"}]}), event("text")],
        }
    }
    assert triggering_jobs(context) == jobs
    assert triggering_events(context) == [{"entry_id": "1-0"}]
    assert triggering_jobs({}) == []
