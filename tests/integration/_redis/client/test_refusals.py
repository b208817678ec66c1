"""Servers that cannot be used: the error is clear, comes in time, names the address and never the password."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import ChasquiError, ConfigError, Queue, QueueEvents, RedisError, SyncQueue, Worker
from chasqui_engine.runtime.clock import monotonic
from tests.integration._redis.client.fake_server import FakeServer, bulk, info
from tests.servers import ServerProcess
from tests.support.ledger import Ledger
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

SECRET = "s3cr3t-pa55"


def told(error: BaseException) -> str:
    """All that a person may come to see of an error."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


async def add_one(url: str) -> None:
    async with Queue("refused", redis_url=url) as queue:
        await queue.add("n", 1)


async def work(url: str) -> None:
    await Worker("refused", Ledger().handle, redis_url=url).run()


EVERY_ROLE = pytest.mark.parametrize("use", [add_one, work])


@pytest.fixture
def closed_port() -> int:
    """A port of the loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@EVERY_ROLE
async def test_unreachable(
    use: Callable[[str], Awaitable[None]], closed_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    started = monotonic()
    with pytest.raises(RedisError) as caught, caplog.at_level(logging.DEBUG):
        await use(f"redis://user:{SECRET}@127.0.0.1:{closed_port}/0")
    assert monotonic() - started < 3
    assert caught.value.code == "CMQ-001"
    assert "[CMQ-001]" in str(caught.value)
    assert f"127.0.0.1:{closed_port}" in str(caught.value)
    assert SECRET not in told(caught.value) + caplog.text


def test_unreachable_for_the_blocking_queue(closed_port: int) -> None:
    with (
        SyncQueue("refused", redis_url=f"redis://:{SECRET}@127.0.0.1:{closed_port}") as queue,
        pytest.raises(RedisError, match=rf"127\.0\.0\.1:{closed_port}") as caught,
    ):
        queue.add("n", 1)
    assert SECRET not in told(caught.value)


@pytest.mark.parametrize("url", ["redis+sentinel://:{0}@127.0.0.1:{1}/main", "redis+cluster://:{0}@127.0.0.1:{1}"])
async def test_unreachable_sentinels_and_clusters(url: str, closed_port: int) -> None:
    with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{closed_port}") as caught:
        await add_one(url.format(SECRET, closed_port))
    assert SECRET not in told(caught.value)


async def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(RedisError, match=r"no-such-host\.invalid:6379") as caught:
        await add_one(f"redis://:{SECRET}@no-such-host.invalid")
    assert SECRET not in told(caught.value)


async def test_a_socket_that_does_not_exist() -> None:
    with pytest.raises(RedisError, match=r"/no/such/server\.sock"):
        await add_one("unix:///no/such/server.sock")


async def test_a_queue_that_could_not_connect_connects_when_the_server_is_there() -> None:
    with ServerProcess() as server:
        server.kill()
        async with Queue("later", redis_url=server.url) as queue:
            with pytest.raises(RedisError):
                await queue.add("n", 1)
            server.start()
            assert (await queue.add("n", 1)).id


@EVERY_ROLE
async def test_a_wrong_password(use: Callable[[str], Awaitable[None]], caplog: pytest.LogCaptureFixture) -> None:
    with ServerProcess(extra_args=("--requirepass", "right")) as server, caplog.at_level(logging.DEBUG):
        with pytest.raises(RedisError, match=r"(?i)password") as caught:
            await use(server.url.replace("redis://", f"redis://:{SECRET}@"))
        with pytest.raises(RedisError, match=r"(?i)auth") as missing:
            await use(server.url)
    assert f"127.0.0.1:{server.port}" in str(caught.value)
    assert f"127.0.0.1:{server.port}" in str(missing.value)
    assert SECRET not in told(caught.value) + caplog.text


async def events_of(url: str) -> None:
    async with QueueEvents("refused", redis_url=url) as events:
        await anext(aiter(events))


@pytest.mark.parametrize("use", [add_one, work, events_of])
@pytest.mark.parametrize("url", [f"http://u:{SECRET}@h", f"redis://u:{SECRET}/x@h", f"redis://u:{SECRET}@h:x"])
async def test_a_bad_url(use: Callable[[str], Awaitable[None]], url: str) -> None:
    with pytest.raises(ConfigError, match="redis_url") as caught:
        await use(url)
    assert SECRET not in told(caught.value)


@EVERY_ROLE
async def test_a_host_that_accepts_and_never_answers(use: Callable[[str], Awaitable[None]]) -> None:
    async with FakeServer(greet=lambda command: b"") as server:
        started = monotonic()
        with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{server.port}.*no answer") as caught:
            await use(server.url + "?socket_connect_timeout=0.2")
        assert monotonic() - started < 3
        assert caught.value.code == "CMQ-001"


async def test_a_host_that_hangs_up_at_once() -> None:
    async with FakeServer(greet=lambda command: server.hang_up() or b"") as server:
        with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{server.port}"):
            await add_one(server.url)


async def test_a_host_that_is_no_redis() -> None:
    async with FakeServer(greet=lambda command: b"SSH-2.0-OpenSSH_9.2\r\n") as server:
        with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{server.port}"):
            await add_one(server.url)


@EVERY_ROLE
async def test_a_server_that_is_too_old(use: Callable[[str], Awaitable[None]]) -> None:
    def old(command: list[bytes]) -> bytes | None:
        return info(redis_version="6.0.16") if command[0] == b"INFO" else None

    async with FakeServer(greet=old) as server:
        with pytest.raises(RedisError, match=r"runs Redis 6\.0\.16.*6\.2") as caught:
            await use(server.url)
        assert f"127.0.0.1:{server.port}" in str(caught.value)
        assert server.commands == []


async def test_a_server_that_is_loading_is_waited_for() -> None:
    """Redis answers INFO while it loads, and nothing that touches data."""

    def load(command: list[bytes]) -> bytes:
        loading = len(server.commands) < 3
        return b"-LOADING Redis is loading the dataset in memory\r\n" if loading else b"*2\r\n:1\r\n:9\r\n"

    async with FakeServer(load) as server:
        await add_one(server.url)
        assert len(server.commands) == 3


async def test_a_server_that_evicts_is_warned_of_once(caplog: pytest.LogCaptureFixture, queue_name: str) -> None:
    with (
        ServerProcess(extra_args=("--maxmemory-policy", "allkeys-lru")) as server,
        caplog.at_level(logging.WARNING, "chasqui"),
    ):
        for _ in range(2):
            async with Queue(queue_name, redis_url=server.url) as queue:
                await queue.add("n", 1)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 1
    assert f"127.0.0.1:{server.port} has maxmemory-policy allkeys-lru" in warnings[0]
    assert "noeviction" in warnings[0]


async def test_nothing_that_goes_wrong_later_shows_the_password(
    caplog: pytest.LogCaptureFixture, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker and a queue ride out a server that goes away; both say so, neither says too much."""
    monkeypatch.setattr("chasqui_engine.admin.admin.A_MOMENT_S", 0.5)
    with ServerProcess(extra_args=("--requirepass", SECRET)) as server, caplog.at_level(logging.DEBUG):
        url = server.url.replace("redis://", f"redis://:{SECRET}@")
        ledger = Ledger()
        worker = Worker(queue_name, ledger.handle, redis_url=url, read_block_ms=50, shutdown_deadline_secs=0)
        running = asyncio.create_task(worker.run())
        async with Queue(queue_name, redis_url=url) as queue:
            await queue.add("n", 1)
            await until(ledger.has(1))
            server.kill()
            await until(lambda: "cannot reach" in caplog.text)
            with pytest.raises(ChasquiError) as caught:
                async with asyncio.timeout(15):
                    await queue.add("n", 2)
            shown = told(caught.value) + repr(queue) + repr(worker) + repr(vars(worker)) + repr(running)
        await worker.close()
        await running
    assert f"127.0.0.1:{server.port}" in caplog.text
    assert SECRET not in shown.replace(repr(url), "") + caplog.text


async def test_a_server_that_hangs_up_on_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it can be reached each time must not make the caller wait for ever."""
    monkeypatch.setattr("chasqui_engine.admin.admin.A_MOMENT_S", 0.5)

    def refuse(command: list[bytes]) -> bytes:
        server.hang_up()
        return b""

    async with FakeServer(refuse) as server, Queue("refused", redis_url=server.url) as queue:
        with pytest.raises(RedisError, match=rf"lost the connection to 127\.0\.0\.1:{server.port}"):
            async with asyncio.timeout(10):
                await queue.add("n", 1, job_id="mine")
    assert len(server.commands) > 1


async def test_sentinels_that_hang_do_not_keep_from_those_that_answer(valkey_url: str, queue_name: str) -> None:
    port = valkey_url.rpartition(":")[2].partition("/")[0].encode()

    def name_the_master(command: list[bytes]) -> bytes:
        return b"*2\r\n" + bulk(b"127.0.0.1") + bulk(port)

    async with FakeServer(greet=lambda command: b"") as silent, FakeServer(name_the_master) as sentinel:
        places = ",".join(f"127.0.0.1:{port}" for port in (silent.port, silent.port, sentinel.port))
        url = f"redis+sentinel://{places}/main?socket_connect_timeout=0.2"
        async with Queue(queue_name, redis_url=url) as queue:
            assert (await queue.add("n", 1)).id
            assert [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", b"main"] in sentinel.commands
