"""The hook against real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow import __version__ as airflow_version
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from redis import Redis

from chasqui_engine import ConfigError, version
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_provider.hooks.chasqui import ChasquiHook
from tests.provider.helpers import worker_thread
from tests.servers import REDIS_7, ServerProcess, make_tls_files
from tests.support.connections.clusters import Cluster
from tests.support.connections.sentinels import SERVICE, Watched


def test_blocking_queue(queue_url: str, queue_name: str) -> None:
    with ChasquiHook().get_queue(queue_name) as queue:
        job = queue.add("hello", {"n": 1}, job_id="one", delay_ms=60_000)
        assert job.id == "one"
        assert queue.cancel_delayed("one")


def test_an_add_continues_the_span_of_its_task_where_tracing_is_on(
    valkey_url: str, connect: Any, queue_name: str
) -> None:
    task = TracerProvider().get_tracer("test").start_span("task")
    connect(url=valkey_url, extra={"tracing": True})
    with ChasquiHook().get_queue(queue_name) as queue, trace.use_span(task):
        queue.add("hello", {"n": 1})
    (entry,) = Redis.from_url(valkey_url).xrange(QueueKeys(queue_name).stream)
    assert f"{task.get_span_context().trace_id:032x}".encode() in entry[1][b"h"]


async def test_async_queue(queue_url: str, queue_name: str) -> None:
    async with await ChasquiHook().get_async_queue(queue_name) as queue:
        await queue.add("hello", {"n": 1}, job_id="one", delay_ms=60_000)
        assert await queue.cancel_delayed("one")


def test_defaults_of_the_connection(valkey_url: str, connect: Any, queue_name: str) -> None:
    connect(url=valkey_url, extra={"queue_name": queue_name, "max_delay_secs": 5})
    with ChasquiHook().get_conn() as queue:
        assert queue.name == queue_name
        with pytest.raises(ConfigError, match="max_delay_secs"):
            queue.add("late", None, delay_ms=60_000)


def test_host_port_and_password(connect: Any, queue_name: str) -> None:
    with ServerProcess(extra_args=("--requirepass", "p@ss/word")) as server:
        connect("locked", host="127.0.0.1", port=server.port, password="p@ss/word", schema="2")
        with ChasquiHook("locked").get_queue(queue_name) as queue:
            assert queue.add("hello", None).id
        assert ChasquiHook("locked").test_connection()[0]
        connect("wrong", host="127.0.0.1", port=server.port, password="no")
        fine, said = ChasquiHook("wrong").test_connection()
        assert not fine
        assert "connection 'wrong'" in said
        assert f"the server at 127.0.0.1:{server.port} refuses the login" in said
        assert "no" not in said.replace("cannot", "").split()


def test_tls(connect: Any, queue_name: str, tmp_path: Path) -> None:
    files = make_tls_files(tmp_path)
    with ServerProcess(REDIS_7, tls=files) as server:
        extra = {"tls": True, "ssl_ca_certs": str(files.authority)}
        connect(host="127.0.0.1", port=server.port, extra=extra)
        assert ChasquiHook().test_connection()[0]


def test_embedded_folder(connect: Any, queue_name: str, tmp_path: Path) -> None:
    connect(extra={"embedded": str(tmp_path / "queues")})
    with ChasquiHook().get_queue(queue_name) as queue:
        assert queue.add("hello", None).id


def test_test_connection(queue_url: str) -> None:
    fine, said = ChasquiHook().test_connection()
    assert fine
    assert said


def test_test_connection_tells_of_jobs_that_nobody_takes(valkey_url: str, connect: Any, queue_name: str) -> None:
    connect(url=valkey_url, extra={"queue_name": queue_name})
    with ChasquiHook().get_queue() as queue:
        assert "no worker has run yet" in ChasquiHook().test_connection()[1]
        queue.add_bulk([{"name": "double", "data": {"n": n}} for n in range(5)])
        assert "5 jobs wait, and group 'default' has no worker" in ChasquiHook().test_connection()[1]
        with worker_thread(valkey_url, queue_name):
            queue.wait_for_result(queue.add("double", {"n": 21}), timeout=25)
        assert "wait" not in ChasquiHook().test_connection()[1]
        queue.add_bulk([{"name": "double", "data": {"n": n}} for n in range(3)])
        fine, said = ChasquiHook().test_connection()
    assert fine, "the connection itself"
    assert "3 jobs wait, and group 'default' has no worker" in said
    assert "healthy" not in said


def test_a_password_beside_the_url(connect: Any, queue_name: str) -> None:
    with ServerProcess(extra_args=("--requirepass", "p@ss/word")) as server:
        connect(url=f"redis://127.0.0.1:{server.port}/2", password="p@ss/word")
        with ChasquiHook().get_queue(queue_name) as queue:
            assert queue.add("hello", None).id


def test_test_connection_says_what_is_wrong(connect: Any) -> None:
    connect(url="redis://127.0.0.1:1")
    fine, said = ChasquiHook().test_connection()
    assert (fine, "127.0.0.1:1" in said) == (False, True)
    connect(extra={"speling": 1})
    fine, said = ChasquiHook().test_connection()
    assert (fine, "speling" in said) == (False, True)
    assert ChasquiHook("nobody_made_it").test_connection()[0] is False


def check_round_trip(queue_name: str) -> None:
    """A job goes there, and its result comes back."""
    fine, said = ChasquiHook().test_connection()
    assert fine, said
    with worker_thread(ChasquiHook().settings().url, queue_name), ChasquiHook().get_queue(queue_name) as queue:
        assert queue.wait_for_result(queue.add("double", {"n": 21}), timeout=25) == 42


@pytest.mark.slow
def test_sentinel(connect: Any, queue_name: str) -> None:
    with Watched(REDIS_7) as watched:
        hosts = ", ".join(f"127.0.0.1:{sentinel.port}" for sentinel in watched.sentinels)
        connect(host=hosts, schema="0", extra={"sentinel": SERVICE, "sentinel_password": watched.password})
        check_round_trip(queue_name)
        connect(host=hosts, extra={"sentinel": SERVICE, "sentinel_password": "wrong"})
        fine, said = ChasquiHook().test_connection()
        assert (fine, "no sentinel names a master" in said) == (False, True)


@pytest.mark.slow
def test_cluster(connect: Any, queue_name: str) -> None:
    with Cluster(REDIS_7) as cluster:
        connect(host=",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes), extra={"cluster": True})
        check_round_trip(queue_name)


def test_the_server_sees_that_it_is_airflow(valkey_queue_url: str, queue_name: str) -> None:
    with ChasquiHook().get_queue(queue_name) as queue, Redis.from_url(valkey_queue_url) as admin:
        queue.counts()
        (ours,) = [client for client in admin.client_list() if client["name"].endswith(queue_name)]
    assert (ours["lib-name"], ours["lib-ver"]) == (f"chasqui(airflow_v{airflow_version})", version())
