"""The operators against real servers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred
from redis import Redis

from chasqui_engine import ConfigError, EncodeError, QueueFullError, RepeatPattern, SyncQueue
from chasqui_provider.operators.chasqui import (
    ChasquiBulkEnqueueOperator,
    ChasquiCancelDelayedOperator,
    ChasquiEnqueueOperator,
    ChasquiRemoveRepeatableOperator,
    ChasquiReplayDlqOperator,
    ChasquiUpsertRepeatableOperator,
)
from chasqui_provider.triggers.chasqui import ChasquiJobResultTrigger
from chasqui_provider.waiting.results import ChasquiUnavailableError, JobDeadError, ResultExpiredError
from tests.provider.helpers import worker_thread
from tests.support.consumers import WorkerProcess, diary_key
from tests.support.waiting import wait_for

Context = dict[str, Any]
DAY_S = 86_400
QUICK_WAIT = {"wait_for_result": True, "deferrable": False, "result_timeout": timedelta(seconds=0.2)}


def depth(url: str, queue_name: str) -> int:
    import redis

    with redis.Redis.from_url(url) as client:
        return int(client.xlen(f"{{chasqui:{queue_name}}}:stream"))


def delayed(url: str, queue_name: str) -> int:
    import redis

    with redis.Redis.from_url(url) as client:
        return int(client.zcard(f"{{chasqui:{queue_name}}}:delayed"))


def enqueue(queue_name: str, **options: Any) -> ChasquiEnqueueOperator:
    return ChasquiEnqueueOperator(task_id="a_task", queue_name=queue_name, **options)


def bulk(queue_name: str, **options: Any) -> ChasquiBulkEnqueueOperator:
    return ChasquiBulkEnqueueOperator(task_id="a_task", queue_name=queue_name, **options)


class TestEnqueue:
    def test_a_retry_does_not_add_again_and_says_so(
        self, queue_url: str, queue_name: str, context: Context, capsys: pytest.CaptureFixture[str]
    ) -> None:
        context["ti"].retries = context["ti"].max_tries = 2
        assert enqueue(queue_name, job_name="n").execute(context) == "airflow:a_dag:manual__1:a_task:-1"
        assert context["ti"].pushed == {}
        for _ in range(2):
            context["ti"].retry()
            assert enqueue(queue_name, job_name="n").execute(context) == "airflow:a_dag:manual__1:a_task:-1"
            assert context["ti"].pushed == {"added": False}
        assert depth(queue_url, queue_name) == 1
        assert capsys.readouterr().out.count("is already taken") == 2

    @pytest.mark.parametrize("retries", [0, 3])
    def test_a_clear_adds_again_and_its_retries_do_not(
        self, retries: int, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        ti = context["ti"]
        ti.retries = ti.max_tries = retries
        ids = [enqueue(queue_name).execute(context)]
        for _ in range(2):
            ti.clear()
            ids.append(enqueue(queue_name).execute(context))
            assert ti.pushed == {}
            ti.retry()
            assert enqueue(queue_name).execute(context) == ids[-1]
        stem = "airflow:a_dag:manual__1:a_task:-1"
        assert ids == [stem, f"{stem}:clear-1", f"{stem}:clear-3"]
        assert depth(valkey_queue_url, queue_name) == 3

    def test_a_given_id_stays_as_it_is_after_a_clear(
        self, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        assert enqueue(queue_name, job_id="mine").execute(context) == "mine"
        context["ti"].clear()
        assert enqueue(queue_name, job_id="mine").execute(context) == "mine"
        assert (depth(valkey_queue_url, queue_name), context["ti"].pushed) == (1, {"added": False})

    def test_fresh_ids_on_demand(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        ids = {enqueue(queue_name, fresh_id=True).execute(context) for _ in range(3)}
        assert (len(ids), depth(valkey_queue_url, queue_name)) == (3, 3)

    def test_every_option(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        options = {"delay": "60", "attempts": "2", "backoff": "{'kind': 'fixed', 'delay_ms': 5}", "job_id": "mine"}
        assert enqueue(queue_name, **options).execute(context) == "mine"
        assert (
            enqueue(queue_name, run_at=(datetime.now(UTC) + timedelta(days=1)).isoformat(), job_id="x").execute(context)
            == "x"
        )
        assert delayed(valkey_queue_url, queue_name) == 2
        with pytest.raises(ValueError, match="not both"):
            enqueue(queue_name, delay=1, run_at="2027-01-01").execute(context)

    def test_payload_that_cannot_be_sent(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        with pytest.raises(EncodeError):
            enqueue(queue_name, payload=object()).execute(context)

    def test_waits_in_the_worker(self, queue_url: str, queue_name: str, context: Context) -> None:
        with worker_thread(queue_url, queue_name):
            waiting = {"wait_for_result": True, "deferrable": False, "result_timeout": timedelta(seconds=20)}
            assert enqueue(queue_name, job_name="d", payload={"n": 4}, **waiting).execute(context) == 8
            as_bytes = enqueue(queue_name, job_name="bytes", job_id="b", **waiting).execute(context)
            assert as_bytes == {"raw": {"$bytes": "AP8="}}
            with pytest.raises(JobDeadError, match=r"unrecoverable.*no such luck"):
                enqueue(queue_name, job_name="die", job_id="d", **waiting).execute(context)
            dead = enqueue(queue_name, job_name="die", job_id="d", on_dead="return", **waiting).execute(context)
            assert (dead["status"], dead["reason"], dead["attempt"]) == ("dead", "unrecoverable", 1)

    def test_the_task_that_waited_logs_what_the_handler_died_of(
        self, queue_url: str, queue_name: str, context: Context, caplog: pytest.LogCaptureFixture
    ) -> None:
        waiting = {"wait_for_result": True, "deferrable": False, "result_timeout": timedelta(seconds=20)}
        with worker_thread(queue_url, queue_name), pytest.raises(JobDeadError):
            enqueue(queue_name, job_name="die", job_id="d", **waiting).execute(context)
        [said] = [record for record in caplog.records if record.name == "chasqui_provider.waiting.results"]
        assert said.message.startswith("job d died of this error in its worker:\nTraceback (most recent call last):")
        assert said.message.endswith("no such luck")

    @pytest.mark.parametrize("timeout", [timedelta(seconds=0.3), 0.3])
    def test_a_wait_has_an_end(self, timeout: Any, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        waiting = {"wait_for_result": True, "deferrable": False, "result_timeout": timeout}
        with pytest.raises(TimeoutError, match=rf"job mine has not ended within 0:00:00.3.* on queue '{queue_name}'"):
            enqueue(queue_name, job_id="mine", **waiting).execute(context)

    @pytest.mark.parametrize("timeout", ["soon", 0, timedelta(seconds=-1), [5]])
    def test_a_timeout_that_is_none_is_refused_at_once(self, timeout: Any) -> None:
        with pytest.raises(ConfigError, match="result_timeout"):
            enqueue("any", wait_for_result=True, result_timeout=timeout)

    def test_a_task_that_is_cleared_after_its_job_died_runs_it_again_and_a_retry_does_not(
        self, queue_url: str, queue_name: str, context: Context
    ) -> None:
        waiting = {"wait_for_result": True, "deferrable": False, "result_timeout": 20}
        with worker_thread(queue_url, queue_name):
            with pytest.raises(JobDeadError, match=r"no such luck.*clear the task"):
                enqueue(queue_name, job_name="die", payload={"n": 4}, **waiting).execute(context)
            context["ti"].retry()
            with pytest.raises(JobDeadError, match="no such luck"):
                enqueue(queue_name, job_name="d", payload={"n": 5}, **waiting).execute(context)
            context["ti"].clear()
            assert enqueue(queue_name, job_name="d", payload={"n": 5}, **waiting).execute(context) == 10
        with SyncQueue(queue_name, redis_url=queue_url) as queue:
            assert len(queue.peek_dlq()) == 1
        assert depth(queue_url, queue_name) == 0

    def test_a_job_of_a_given_id_stays_dead_until_it_is_replayed(
        self, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        waiting = {"wait_for_result": True, "deferrable": False, "result_timeout": 20, "job_id": "mine"}
        context["ti"].clear()
        with worker_thread(valkey_queue_url, queue_name):
            for _ in range(2):
                with pytest.raises(JobDeadError, match="ChasquiReplayDlqOperator"):
                    enqueue(queue_name, job_name="die", **waiting).execute(context)

    def test_what_templates_make(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        native = {"job_id": 42, "job_name": 7, "delay": "2:00:00", "attempts": "None", "run_at": "None"}
        assert enqueue(queue_name, **native).execute(context) == "42"
        assert enqueue(queue_name, delay="None", job_id="None").execute(context) == "airflow:a_dag:manual__1:a_task:-1"
        assert (depth(valkey_queue_url, queue_name), delayed(valkey_queue_url, queue_name)) == (1, 1)

    def test_defers(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        operator = enqueue(queue_name, wait_for_result=True, deferrable=True, delay=DAY_S)
        with pytest.raises(TaskDeferred) as deferred:
            operator.execute(context)
        trigger: Any = deferred.value.trigger
        assert isinstance(trigger, ChasquiJobResultTrigger)
        assert trigger.job_ids == ["airflow:a_dag:manual__1:a_task:-1"]
        assert trigger.on_kill_action == "abort"
        outcome = {"job_id": "x", "status": "completed", "result_json": "5"}
        assert operator.execute_complete(context, {"outcomes": [outcome]}) == 5
        with pytest.raises(ResultExpiredError, match="store_results"):
            operator.execute_complete(context, {"outcomes": [{"job_id": "x", "status": "expired"}]})
        with pytest.raises(ChasquiUnavailableError, match="gone"):
            operator.execute_complete(context, {"error": "gone"})

    @pytest.mark.parametrize(("on_kill", "left"), [(None, 0), ("abort", 0), ("cancel", 0), ("leave", 1)])
    def test_kill_takes_a_delayed_job_back(
        self, on_kill: Any, left: int, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        operator = enqueue(queue_name, delay=DAY_S, on_kill=on_kill, **QUICK_WAIT)
        with pytest.raises(TimeoutError):
            operator.execute(context)
        operator.on_kill()
        assert delayed(valkey_queue_url, queue_name) == left

    def test_kill_aborts_a_running_job(self, queue_url: str, queue_name: str, context: Context) -> None:
        operator = enqueue(queue_name, **QUICK_WAIT)
        with WorkerProcess(queue_url, queue_name, "sleep:60"), Redis.from_url(queue_url) as client:
            with pytest.raises(TimeoutError):
                operator.execute(context)
            wait_for(lambda: client.llen(diary_key(queue_name)), "a run")
            operator.on_kill()
            assert depth(queue_url, queue_name) == 0

    def test_kill_leaves_a_job_alone_that_the_task_did_not_add(
        self, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        for operator in (enqueue(queue_name, job_id="theirs"), enqueue(queue_name, job_id="theirs", **QUICK_WAIT)):
            with contextlib.suppress(TimeoutError):
                operator.execute(context)
            operator.on_kill()
        assert depth(valkey_queue_url, queue_name) == 1

    def test_the_old_name_warns(self, valkey_queue_url: str, queue_name: str) -> None:
        with pytest.warns(DeprecationWarning, match="write on_kill='cancel'"):
            assert enqueue(queue_name, cancel_on_kill=True).on_kill_action == "cancel"
        with pytest.raises(ValueError, match="on_kill must be 'abort', 'cancel' or 'leave', got 'kill'"):
            enqueue(queue_name, on_kill="kill")


class TestBulk:
    def test_what_is_missing_is_added(self, queue_url: str, queue_name: str, context: Context) -> None:
        def breaks() -> Iterator[int]:
            yield from range(25)
            raise RuntimeError("halfway")

        with pytest.raises(RuntimeError, match="halfway"):
            bulk(queue_name, payloads=breaks(), chunk_size=10).execute(context)
        assert depth(queue_url, queue_name) == 20
        summary = bulk(queue_name, payloads=range(30), chunk_size=10).execute(context)
        assert depth(queue_url, queue_name) == 30
        assert summary == {
            "queue_name": queue_name,
            "count": 30,
            "added": 10,
            "chunks": 3,
            "first_id": "airflow:a_dag:manual__1:a_task:-1:0",
            "last_id": "airflow:a_dag:manual__1:a_task:-1:29",
        }

    def test_a_clear_adds_all_again(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        first = bulk(queue_name, payloads=range(3)).execute(context)
        context["ti"].retry()
        again = bulk(queue_name, payloads=range(3)).execute(context)
        context["ti"].clear()
        cleared = bulk(queue_name, payloads=range(3)).execute(context)
        assert [one["added"] for one in (first, again, cleared)] == [3, 0, 3]
        assert cleared["last_id"] == "airflow:a_dag:manual__1:a_task:-1:clear-2:2"

    def test_an_endless_iterator_is_read_a_chunk_at_a_time(
        self, valkey_url: str, connect: Any, queue_name: str, context: Context
    ) -> None:
        connect(url=valkey_url, extra={"max_stream_len": 50})
        read = itertools.count()
        with pytest.raises(QueueFullError):
            bulk(queue_name, payloads=lambda **_: read, chunk_size=10).execute(context)
        assert next(read) == 60

    def test_items_with_options(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        items = [
            {"payload": 1, "name": "a", "job_id": "one"},
            {"payload": {"$bytes": "AP8="}, "delay": DAY_S, "attempts": 1},
        ]
        summary = bulk(queue_name, payloads=items, items_are_jobs=True, return_ids=True).execute(context)
        assert summary["ids"] == ["one", "airflow:a_dag:manual__1:a_task:-1:1"]
        assert (depth(valkey_queue_url, queue_name), delayed(valkey_queue_url, queue_name)) == (1, 1)

    @pytest.mark.parametrize(
        ("item", "wrong"),
        [
            (1, "'payload'"),
            ({"name": "x"}, "'payload'"),
            ({"payload": 1, "prio": 2}, "'prio'"),
            ({"payload": 1, "attempts": 2.7}, "attempts"),
            ({"payload": 1, "attempts": -1}, "attempts"),
            ({"payload": 1, "delay": 1, "run_at": "2027-01-01"}, "not both"),
            ({"payload": 1, "backoff": {"x": 1}}, "backoff"),
            ({"payload": 1, "job_id": "x" * 2000}, "job_id"),
        ],
    )
    def test_an_item_that_is_none_is_named(
        self, item: Any, wrong: str, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        with pytest.raises(ConfigError, match=rf"item 1 of payloads: .*{wrong}"):
            bulk(queue_name, payloads=[{"payload": 0}, item], items_are_jobs=True).execute(context)
        assert depth(valkey_queue_url, queue_name) == 0

    def test_a_payload_that_cannot_be_sent_is_named(
        self, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        with pytest.raises(EncodeError, match=r"items 2 to 3 of payloads: the payload of job 2 of 2"):
            bulk(queue_name, payloads=[0, 1, 2, object()], chunk_size=2).execute(context)

    @pytest.mark.parametrize("text", ["[{'n': 1}, {'n': 2}]", '[{"n": 1}, {"n": 2}]'])
    def test_an_xcom_through_a_template(
        self, text: str, valkey_queue_url: str, queue_name: str, context: Context
    ) -> None:
        assert bulk(queue_name, payloads=text).execute(context)["count"] == 2
        assert depth(valkey_queue_url, queue_name) == 2

    @pytest.mark.parametrize("wrong", ["abc", b"abc", {"n": 1}, None, 7, lambda: "abc"])
    def test_what_is_no_list(self, wrong: Any, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        with pytest.raises(ConfigError, match=r"payloads must be a list.*task\.output"):
            bulk(queue_name, payloads=wrong).execute(context)
        assert depth(valkey_queue_url, queue_name) == 0

    def test_nothing(self, valkey_queue_url: str, queue_name: str, context: Context) -> None:
        assert bulk(queue_name, payloads=[]).execute(context)["count"] == 0


def test_repeatables_come_and_go(queue_url: str, queue_name: str, context: Context) -> None:
    upsert = ChasquiUpsertRepeatableOperator(
        task_id="u",
        queue_name=queue_name,
        job_name="tick",
        every_ms="60000",
        limit="3",
        end_before="2999-01-01",
        missed_fires={"kind": "fire-once"},
    )
    key = upsert.execute(context)
    cron = ChasquiUpsertRepeatableOperator(task_id="c", queue_name=queue_name, job_name="c", cron="0 9 * * *", tz="UTC")
    cron.execute(context)
    with SyncQueue(queue_name, redis_url=queue_url) as queue:
        found = {spec.key: spec for spec in queue.get_repeatable_jobs()}
    assert found[key].pattern == RepeatPattern.every(60_000)
    assert found[key].limit == 3
    assert len(found) == 2
    remove = ChasquiRemoveRepeatableOperator(task_id="r", queue_name=queue_name, key=key)
    assert [remove.execute(context), remove.execute(context)] == [True, False]
    with pytest.raises(ValueError, match="cron or every_ms"):
        ChasquiUpsertRepeatableOperator(task_id="n", queue_name=queue_name, job_name="x")


def test_cancel_delayed(queue_url: str, queue_name: str, context: Context) -> None:
    enqueue(queue_name, job_id="later", delay=DAY_S).execute(context)
    cancel = ChasquiCancelDelayedOperator(task_id="c", queue_name=queue_name, job_ids="['later', 'never']")
    assert cancel.execute(context) == {"later": True, "never": False}
    nothing = ChasquiCancelDelayedOperator(task_id="n", queue_name=queue_name, job_ids=[])
    assert nothing.execute(context) == {}


def test_replay_of_dead_letters(queue_url: str, queue_name: str, context: Context) -> None:
    waiting = {"wait_for_result": True, "deferrable": False, "on_dead": "return"}
    with worker_thread(queue_url, queue_name):
        enqueue(queue_name, job_name="die", **waiting).execute(context)
    replay = ChasquiReplayDlqOperator(task_id="r", queue_name=queue_name, limit="10")
    assert [replay.execute(context), replay.execute(context)] == [1, 0]
    assert depth(queue_url, queue_name) == 1
