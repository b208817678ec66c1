"""A server that is away is waited for; one that refuses the login, or a certificate that does not fit, is not."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from chasqui_engine import RedisError, RefusedError, SyncQueue
from chasqui_provider.hooks.chasqui import ChasquiHook
from chasqui_provider.notifications.chasqui import ChasquiNotifier
from chasqui_provider.operators.chasqui import ChasquiBulkEnqueueOperator, ChasquiEnqueueOperator
from chasqui_provider.sensors.chasqui import ChasquiJobResultSensor
from chasqui_provider.triggers.chasqui import ChasquiJobResultTrigger
from chasqui_provider.version_compat import AirflowSensorTimeout, TaskDeferralTimeout
from chasqui_provider.waiting.results import ChasquiUnavailableError
from tests.servers import REDIS_7, ServerProcess
from tests.servers.process import make_tls_files

Context = dict[str, Any]
AT_ONCE_S = 3.0
TIMED_OUT = {"error": "Trigger timeout"}


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    """One that keeps what it has over a kill."""
    with ServerProcess(extra_args=("--appendonly", "yes", "--appendfsync", "always")) as one:
        yield one


def away_for(server: ServerProcess, seconds: float) -> threading.Timer:
    """Kills the server, and starts it again after a while."""
    server.kill()
    back = threading.Timer(seconds, server.start)
    back.start()
    return back


def waiting(server: ServerProcess, queue_name: str) -> int:
    with SyncQueue(queue_name, redis_url=server.url) as queue:
        return queue.counts().waiting


# --- away ---


def test_an_enqueue_waits_for_a_server_that_is_away(
    server: ServerProcess, connect: Any, queue_name: str, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    connect(url=server.url)
    back = away_for(server, 7)
    ChasquiEnqueueOperator(task_id="e", queue_name=queue_name, job_id="one").execute(context)
    back.join()
    assert waiting(server, queue_name) == 1
    assert "cannot reach" in caplog.text
    assert f"127.0.0.1:{server.port} is still unreachable after" in caplog.text


def test_a_bulk_goes_on_after_an_outage_in_its_middle(
    server: ServerProcess, connect: Any, queue_name: str, context: Context
) -> None:
    connect(url=server.url)
    away: list[threading.Timer] = []

    def payloads() -> Iterator[int]:
        for n in range(100):
            if n == 50:
                away.append(away_for(server, 7))
            yield n

    bulk = ChasquiBulkEnqueueOperator(task_id="b", queue_name=queue_name, payloads=payloads, chunk_size=10)
    assert bulk.execute(context)["count"] == 100
    away[0].join()
    assert waiting(server, queue_name) == 100


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_notification_waits_for_a_server_that_is_away(
    server: ServerProcess, in_loop: bool, connect: Any, queue_name: str, context: Context
) -> None:
    connect(url=server.url)
    back = away_for(server, 2)
    notifier = ChasquiNotifier(queue_name=queue_name, job_id="one")
    if in_loop:
        asyncio.run(notifier.async_notify(context))
    else:
        notifier.notify(context)
    back.join()
    assert waiting(server, queue_name) == 1


def test_the_connection_says_how_long(connect: Any, queue_name: str, context: Context) -> None:
    connect("away", url="redis://127.0.0.1:1", extra={"connection_patience": 1})
    begun_s = time.monotonic()
    with pytest.raises(RedisError, match=r"connection 'away': cannot reach the server at 127\.0\.0\.1:1"):
        ChasquiEnqueueOperator(task_id="e", queue_name=queue_name, chasqui_conn_id="away").execute(context)
    assert 0.5 < time.monotonic() - begun_s < 15  # where the default would be 30
    connect("away", url="redis://127.0.0.1:1", extra={"connection_patience": -1})
    assert "connection_patience must not be negative, got -1" in ChasquiHook("away").test_connection()[1]


@pytest.mark.parametrize(
    ("fresh_ids", "said"), [(False, "a retry adds only the rest"), (True, "a retry adds all of them again")]
)
def test_a_bulk_that_fails_says_how_far_it_came(
    server: ServerProcess, fresh_ids: bool, said: str, connect: Any, queue_name: str, context: Context
) -> None:
    connect(url=server.url, extra={"connection_patience": 1})

    def payloads() -> Iterator[int]:
        for n in range(100):
            if n == 50:
                server.kill()
            yield n

    bulk = ChasquiBulkEnqueueOperator(
        task_id="b", queue_name=queue_name, payloads=payloads, chunk_size=20, fresh_ids=fresh_ids
    )
    with pytest.raises(RedisError, match=f"40 jobs are on {queue_name}, and some of the next 20 may be; {said}"):
        bulk.execute(context)


# --- refused ---


@pytest.fixture
def locked(connect: Any) -> Iterator[str]:
    """A connection with a wrong password."""
    with ServerProcess(extra_args=("--requirepass", "the right one")) as server:
        yield str(connect("locked", host="127.0.0.1", port=server.port, password="a wrong one"))


REFUSED = r"connection 'locked': the server at 127\.0\.0\.1:\d+ refuses the login"


def test_a_wrong_password_fails_every_task_at_once(locked: str, queue_name: str, context: Context) -> None:
    where = {"task_id": "t", "queue_name": queue_name, "chasqui_conn_id": locked}
    begun_s = time.monotonic()
    for task in (
        ChasquiEnqueueOperator(**where),
        ChasquiBulkEnqueueOperator(payloads=[1], **where),
        ChasquiJobResultSensor(job_ids="{{ 'x' }}", deferrable=True, soft_fail=True, **where),
        ChasquiJobResultSensor(job_ids="{{ 'x' }}", deferrable=True, defer_after=5, **where),
    ):
        with pytest.raises(RefusedError, match=REFUSED):
            task.execute(context)
    for soft_fail in (True, False):
        with pytest.raises(ChasquiUnavailableError, match=REFUSED):
            ChasquiJobResultSensor(job_ids="x", soft_fail=soft_fail, **where).execute(context)
    with pytest.raises(RefusedError, match=REFUSED):
        ChasquiNotifier(queue_name=queue_name, chasqui_conn_id=locked).notify(context)
    assert time.monotonic() - begun_s < 2 * AT_ONCE_S


async def test_a_wrong_password_ends_a_wait_in_the_triggerer(locked: str, queue_name: str) -> None:
    async with asyncio.timeout(AT_ONCE_S):
        trigger = ChasquiJobResultTrigger(["x"], queue_name, locked)
        (event,) = [event async for event in trigger.run()]
    assert "refuses the login" in event.payload["error"]
    sensor = ChasquiJobResultSensor(task_id="s", job_ids="x", queue_name=queue_name, soft_fail=True)
    with pytest.raises(ChasquiUnavailableError, match=REFUSED):
        sensor.resume_execution("execute_complete", {"event": event.payload}, {})


async def test_a_certificate_that_does_not_fit_ends_a_wait(connect: Any, queue_name: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    tls, other = make_tls_files(tmp_path), make_tls_files(tmp_path / "other")
    with ServerProcess(REDIS_7, tls=tls) as server:
        connect("odd", host="127.0.0.1", port=server.port, extra={"tls": True, "ssl_ca_certs": str(other.authority)})
        async with asyncio.timeout(AT_ONCE_S):
            (event,) = [event async for event in ChasquiJobResultTrigger(["x"], queue_name, "odd").run()]
    assert f"connection 'odd': no TLS with the server at 127.0.0.1:{server.port}" in event.payload["error"]


def test_a_key_of_another_type_is_an_error_at_once(
    server: ServerProcess, connect: Any, queue_name: str, context: Context
) -> None:
    connect(url=server.url)
    with Redis.from_url(server.url) as client:
        client.set(f"{{chasqui:{queue_name}}}:stream", "not a stream")
    with pytest.raises(
        RefusedError, match=rf"connection 'chasqui_default' \(127\.0\.0\.1:{server.port}\): .*WRONGTYPE"
    ):
        ChasquiEnqueueOperator(task_id="e", queue_name=queue_name).execute(context)


# --- out of time ---


def test_a_wait_that_is_out_of_time_says_for_what(
    server: ServerProcess, connect: Any, queue_name: str, context: Context
) -> None:
    connect(url=server.url, extra={"connection_patience": 0})
    where = {"task_id": "t", "queue_name": queue_name}
    waits = ChasquiEnqueueOperator(job_id="x", wait_for_result=True, result_timeout=1, **where)
    said = (
        f"job x has not ended within 0:00:01 (result_timeout) on queue {queue_name!r} of connection 'chasqui_default': "
        "job x is waiting (is a worker running?)"
    )
    with pytest.raises(TimeoutError) as blocking:
        waits.execute(context)
    assert str(blocking.value) == said
    with pytest.raises(TaskDeferralTimeout) as deferred:
        waits.resume_execution("__fail__", TIMED_OUT, context)
    assert str(deferred.value) == said

    server.kill()
    sensor = ChasquiJobResultSensor(job_ids=["x", "y"], timeout=timedelta(hours=1).total_seconds(), **where)
    with pytest.raises(AirflowSensorTimeout, match=r"2 jobs .* within 1:00:00 \(timeout\) .*: cannot reach the server"):
        sensor.resume_execution("__fail__", TIMED_OUT, context)
