"""Functions in template fields, through Airflow's own rendering."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import redis
from airflow.sdk import DAG

from chasqui_engine.codec.envelope import decode_job
from chasqui_engine.codec.repeatable import decode_spec
from chasqui_provider.notifications.chasqui import ChasquiNotifier
from chasqui_provider.operators.chasqui import (
    ChasquiBulkEnqueueOperator,
    ChasquiEnqueueOperator,
    ChasquiUpsertRepeatableOperator,
)
from tests.provider.conftest import Ti

Context = dict[str, Any]


def nothing_taken() -> list[str]:
    return ["a", "b"]


def a_generator(ti: Any, missing: str = "unasked") -> Iterator[str]:
    yield ti.task_id
    yield missing


def everything(**context: Any) -> list[str]:
    return [context["ti"].task_id, context["params"]["who"]]


def airflows_own_form(context: Any, jinja_env: Any) -> list[str]:
    return [context["ti"].task_id, jinja_env.from_string("{{ 1 + 1 }}").render()]


def of_both(prefix: str, ti: Any) -> list[str]:
    return [prefix, ti.task_id]


class Letters:
    def method(self, run_id: str) -> list[str]:
        return [run_id[:6], "b"]

    def __call__(self, *, ti: Any) -> list[str]:
        return [ti.task_id, "b"]


TASK = "made"
FUNCTIONS: list[tuple[Callable[..., Any], list[Any]]] = [
    (nothing_taken, ["a", "b"]),
    (a_generator, [TASK, "unasked"]),
    (everything, [TASK, "ada"]),
    (airflows_own_form, [TASK, "2"]),
    (lambda: ["a", "b"], ["a", "b"]),
    (lambda ti: (ti.task_id, "b"), [TASK, "b"]),
    (Letters().method, ["manual", "b"]),
    (Letters(), [TASK, "b"]),
    (functools.partial(of_both, "p"), ["p", TASK]),
    (functools.partial(range, 2), [0, 1]),
]


@pytest.fixture
def context() -> Context:
    ti = Ti(task_id=TASK)
    return {"ti": ti, "run_id": ti.run_id, "params": {"who": "ada"}}


def held(url: str, queue_name: str) -> list[Any]:
    """The payloads of all jobs, in their order."""
    stream = f"{{chasqui:{queue_name}}}:stream"
    with redis.Redis.from_url(url) as client:
        return [decode_job(fields[b"d"]).payload for _, fields in client.xrange(stream)]


def run(task: Any, context: Context) -> Any:
    """As Airflow does: renders the fields, then runs the task."""
    task.render_template_fields(context)
    return task.execute(context)


@pytest.mark.parametrize(("function", "payloads"), FUNCTIONS)
def test_any_function_makes_payloads(
    function: Callable[..., Any], payloads: list[Any], valkey_queue_url: str, queue_name: str, context: Context
) -> None:
    run(ChasquiBulkEnqueueOperator(task_id=TASK, queue_name=queue_name, payloads=function), context)
    assert held(valkey_queue_url, queue_name) == payloads


def test_so_does_an_iterator(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    run(ChasquiBulkEnqueueOperator(task_id=TASK, queue_name=queue_name, payloads=iter("ab")), context)
    assert held(valkey_queue_url, queue_name) == ["a", "b"]


def test_a_function_runs_with_its_task_and_not_while_fields_are_rendered(queue_name: str, context: Context) -> None:
    calls: list[str] = []
    task = ChasquiBulkEnqueueOperator(task_id=TASK, queue_name=queue_name, payloads=lambda: calls.append("called"))
    task.render_template_fields(context)
    assert not calls


def test_a_function_makes_the_payload_of_one_job(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    run(ChasquiEnqueueOperator(task_id=TASK, queue_name=queue_name, payload=lambda ti: {"of": ti.task_id}), context)
    assert held(valkey_queue_url, queue_name) == [{"of": TASK}]


def test_and_of_a_spec(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    spec = {"job_name": "s", "every_ms": 60_000, "payload": lambda ti: {"of": ti.task_id}}
    key = run(ChasquiUpsertRepeatableOperator(task_id=TASK, queue_name=queue_name, **spec), context)
    with redis.Redis.from_url(valkey_queue_url) as client:
        stored = client.hget(f"{{chasqui:{queue_name}}}:repeat:spec:{key}", "spec")
    assert decode_spec(stored).payload == {"of": TASK}


def test_and_of_a_notification(valkey_queue_url: str, queue_name: str, context: Context) -> None:
    for payload in (nothing_taken, everything):
        ChasquiNotifier(queue_name=queue_name, payload=payload)(context)
    assert held(valkey_queue_url, queue_name) == [["a", "b"], [TASK, "ada"]]


def test_a_function_does_not_make_a_dag_a_new_version_with_every_parse() -> None:
    from airflow.serialization import serialized_objects

    # Airflow 3.1 has another name for it.
    serialization = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG

    def parsed() -> str:
        with DAG("any", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            for number, payloads in enumerate((Letters().method, Letters(), a_generator(None))):
                ChasquiBulkEnqueueOperator(task_id=f"t{number}", payloads=payloads)
        return str(serialization.to_dict(dag))

    first, second = parsed(), parsed()
    assert first == second
    assert "<callable tests.provider.integration.operators.test_callables.Letters.method>" in first
