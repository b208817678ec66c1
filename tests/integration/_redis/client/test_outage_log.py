"""A server that is there, but does not do what it is asked: said once, and once when it is over."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import Queue, RedisError
from chasqui_engine._redis.client import protocol
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.runtime.clock import monotonic
from tests.servers import ServerProcess
from tests.support.connections.proxy import Proxy
from tests.support.ledger import working
from tests.support.queues import stream_is_empty
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("chasqui.") and record.levelno == level
    ]


async def test_a_server_that_takes_no_writes(server_kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with ServerProcess(server_kind) as server:
        async with (
            Redis.from_url(server.url) as raw,
            Queue("q", redis_url=server.url) as queue,
            working("q", server.url) as ledger,
        ):
            await queue.add("n", 1)
            await until(ledger.has(1))
            # Until then a heartbeat asks for it as well, over a connection of its own with words of its own.
            await until(lambda: stream_is_empty(raw, "q"))
            before = (await raw.info("stats"))["total_connections_received"]
            with caplog.at_level(logging.INFO):
                await raw.config_set("min-replicas-to-write", 1)
                await until(lambda: bool(lines(caplog, logging.WARNING)))
                await asyncio.sleep(2)
                assert (await raw.info("stats"))["total_connections_received"] == before
                await raw.config_set("min-replicas-to-write", 0)
                await until(lambda: bool(lines(caplog, logging.INFO)))
                await queue.add("n", 2)
                await until(ledger.has(2))
        # The heartbeat's connection may have something to write meanwhile, and says the same.
        [warning], [over] = set(lines(caplog, logging.WARNING)), lines(caplog, logging.INFO)[:1]
        assert "NOREPLICAS" in warning
        assert "retrying" in warning
        assert "reconnected to" in over


async def test_a_link_that_goes_silent_is_said_to_be(
    valkey_url: str, queue_name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chasqui_engine._redis.commands.group.LATE_S", 0.5)
    async with (
        Proxy(valkey_url) as proxy,
        Queue(queue_name, redis_url=valkey_url) as queue,
        working(queue_name, proxy.url) as ledger,
    ):
        await queue.add("n", 1)
        await until(ledger.has(1))
        await asyncio.sleep(0.2)
        proxy.freeze()
        await until(lambda: any("does not answer" in line for line in lines(caplog, logging.WARNING)))
        proxy.cut()


async def exchange(serve: Serve, packed: bytes, timeout_s: float) -> list[Any]:
    """What one command gets from a server that behaves as `serve` does."""

    async def serve_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())
        try:
            await serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        else:
            writer.close()

    served: list[asyncio.Task[None] | None] = []
    server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        talking = protocol.RedisProtocol(writer)
        try:
            return await talking.exchange(packed, 1, timeout_s)
        finally:
            talking.abort("done")
            await cancel_and_wait(*served)
            await asyncio.sleep(0)


async def test_a_reply_that_trickles_in_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_SIGN_OF_LIFE_S", 0.5)

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"$10\r\n")
        for _ in range(10):
            writer.write(b"x")
            await asyncio.sleep(0.1)
        writer.write(b"\r\n")

    assert await exchange(slowly, b"PING\r\n", 0.3) == [b"x" * 10]


async def test_a_command_that_takes_long_to_leave_is_waited_for() -> None:
    size = 24 * 2**20

    async def sip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = size
        while left > 0:
            left -= len(await reader.read(2**20))
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)  # the last bytes have left, and the server has yet to read them
        writer.write(b"+OK\r\n")

    assert await exchange(sip, bytes(size), 0.2) == [b"OK"]


async def test_a_reply_that_stops_halfway_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_SIGN_OF_LIFE_S", 0.2)

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"$10\r\nxxx")
        await asyncio.sleep(60)

    started = monotonic()
    with pytest.raises(protocol.SilentError):
        await exchange(half, b"PING\r\n", 0.2)
    assert monotonic() - started < 5


async def test_a_producer_is_told_what_the_server_said(queue_name: str) -> None:
    with ServerProcess() as server:
        async with Queue(queue_name, redis_url=server.url) as queue, Redis.from_url(server.url) as raw:
            await raw.config_set("min-replicas-to-write", 1)
            with pytest.raises(RedisError, match="NOREPLICAS"):
                await queue.add("n", 1, job_id="a")
