"""The password of a connection is in nothing that the provider says, stores or hands on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from airflow.providers.common.compat.sdk import TaskDeferred, redact

from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.notifications.chasqui import ChasquiNotifier
from chasqui_provider.operators.chasqui import ChasquiBulkEnqueueOperator, ChasquiEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.triggers.chasqui import ChasquiEventTrigger, ChasquiJobResultTrigger, ChasquiMessageTrigger
from tests.servers import ServerProcess

SECRET = "hunter2-Tr0ub4dor"
QUEUE = "secrets"
HOWS = ("password", "url")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    """Has a password, set when it runs: a command line is for all to see."""
    with ServerProcess() as server:
        with redis.Redis.from_url(server.url) as admin:
            admin.config_set("requirepass", SECRET)
        yield server


def log_in(connect: Any, how: str, port: int, password: str = SECRET) -> str:
    if how == "url":
        conn_id: str = connect("locked", url=f"redis://:{password}@127.0.0.1:{port}/0")
    else:
        conn_id = connect("locked", host="127.0.0.1", port=port, password=password)
    return conn_id


def where(texts: list[str]) -> list[str]:
    return [text for text in texts if SECRET in text]


@pytest.mark.parametrize("how", HOWS)
def test_what_is_stored_names_the_connection(
    server: ServerProcess, connect: Any, context: dict[str, Any], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    conn_id = log_in(connect, how, server.port)
    options: dict[str, Any] = {"queue_name": QUEUE, "chasqui_conn_id": conn_id}
    with caplog.at_level(logging.DEBUG):
        one = ChasquiEnqueueOperator(task_id="one", job_name="n", payload=1, **options)
        many = ChasquiBulkEnqueueOperator(task_id="many", payloads=[1, 2], **options)
        shown = [repr(one.execute(context)), repr(many.execute(context))]
        waiting = ChasquiEnqueueOperator(task_id="wait", wait_for_result=True, deferrable=True, **options)
        with pytest.raises(TaskDeferred) as deferred:
            waiting.execute(context)
        triggers = [
            deferred.value.trigger,
            ChasquiJobResultTrigger(job_ids="a", **options),
            ChasquiMessageTrigger(**options),
            ChasquiEventTrigger(**options),
        ]
        for trigger in triggers:
            path, kwargs = trigger.serialize()
            assert kwargs["chasqui_conn_id"] == conn_id
            shown += [path, repr(kwargs), repr(vars(trigger))]
        hook = ChasquiHook(conn_id)
        with hook.get_queue(QUEUE) as queue:
            shown += [repr(queue), repr(queue.counts())]
        sensor = ChasquiJobResultSensor(task_id="sensor", job_ids="a", **options)
        notifier = ChasquiNotifier(job_name="n", **options)
        shown += [repr(thing) for thing in (hook, hook.settings(), one, many, sensor, notifier)]
        shown += [repr(vars(thing)) for thing in (hook, one, many, sensor, notifier)]
        fine, said = hook.test_connection()
    assert fine
    assert len(shown) > 20
    assert where([*shown, said, caplog.text]) == []


@pytest.mark.parametrize("how", HOWS)
async def test_what_fails_does_not_say_it(
    server: ServerProcess, connect: Any, context: dict[str, Any], how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Logged in wrongly, with a password that is the secret of another server, say."""
    with redis.Redis.from_url(server.url, password=SECRET) as admin:
        admin.config_set("requirepass", "another")
    try:
        conn_id = log_in(connect, how, server.port)
        with caplog.at_level(logging.DEBUG):
            shown = await _failures(conn_id, context)
    finally:
        with redis.Redis.from_url(server.url, password="another") as admin:
            admin.config_set("requirepass", SECRET)
    assert any("refuses the login" in text for text in shown)
    assert where([*shown, caplog.text]) == []


async def _failures(conn_id: str, context: dict[str, Any]) -> list[str]:
    options: dict[str, Any] = {"queue_name": QUEUE, "chasqui_conn_id": conn_id}
    shown = []
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of whatever kind, it must not show it
        ChasquiEnqueueOperator(task_id="one", **options).execute(context)
    shown += [repr(caught.value), *traceback.format_exception(caught.value)]
    # It goes on trying, since whoever changed the password will tell Airflow soon; what counts is what it logs.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3):
            async for event in ChasquiJobResultTrigger(job_ids="a", **options).run():
                shown.append(repr(event))
    return shown


@pytest.mark.parametrize("how", HOWS)
async def test_airflow_hides_it_in_what_others_log(connect: Any, how: str) -> None:
    secret = f"{how}-Orpheus"  # one that Airflow has not been told of by another test
    conn_id = log_in(connect, how, 1, secret)
    for url in (ChasquiHook(conn_id).settings().url, (await ChasquiHook(conn_id).get_settings()).url):
        said = str(redact(f"cannot reach {url} with {secret}"))
        assert "Orpheus" not in said
        assert "***" in said


SHOW_CONNECTION = f"""
import json
import airflow.settings
from airflow.api_fastapi.core_api.datamodels.connections import ConnectionResponse
from airflow.models.connection import Connection

airflow.settings.initialize()
extra = json.dumps({{"url": "redis://u:{SECRET}@h:1/0", "queue_name": "emails"}})
print(ConnectionResponse.model_validate(Connection(conn_id="c", conn_type="chasqui", extra=extra)).model_dump())
"""


def test_airflows_api_hides_the_url_when_told_to() -> None:
    environment = {**os.environ, "AIRFLOW__CORE__SENSITIVE_VAR_CONN_NAMES": "url", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", SHOW_CONNECTION]
    shown = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120).stdout.decode()
    assert "emails" in shown
    assert where([shown]) == []


def test_a_connection_that_makes_no_sense_is_not_quoted(connect: Any) -> None:
    for extra in (
        {"url": f"nonsense://u:{SECRET}@h"},
        {"sentinel_password": SECRET},
        {"url": f"redis://u:{SECRET}@h:x"},
    ):
        conn_id = connect("broken", extra=extra)
        fine, said = ChasquiHook(conn_id).test_connection()
        assert not fine
        assert where([said]) == []
        with (
            pytest.raises(Exception) as caught,  # noqa: PT011 - of whatever kind, it must not show it
            ChasquiHook(conn_id).get_queue(QUEUE) as queue,
        ):
            queue.add("n", 1)
        assert where(traceback.format_exception(caught.value)) == []
