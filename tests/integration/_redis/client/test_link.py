"""The link itself, against a server that does what it is told: order, fragments, garbage, silence, cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import RedisError, ShutdownError
from chasqui_engine._redis.client.endpoints import endpoint_for
from chasqui_engine._redis.client.link import CommandError, Link
from chasqui_engine._redis.client.outage_log import OutageLog
from chasqui_engine._redis.client.replies import ReplyError
from chasqui_engine._redis.commands import scripts
from chasqui_engine.runtime.clock import monotonic
from tests.integration._redis.client.fake_server import OK, FakeServer, bulk
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    OpenLink = Callable[..., Link]


@pytest.fixture
async def open_link() -> AsyncIterator[OpenLink]:
    """Makes links that are closed after the test."""
    links: list[Link] = []

    def make(server: FakeServer, patience_s: float = 1.0) -> Link:
        endpoint = endpoint_for(server.url, "k")
        links.append(Link(endpoint, client_name="test", patience_s=patience_s, outage=OutageLog(endpoint.address)))
        return links[-1]

    yield make
    for link in links:
        await link.close()


def echo(command: list[bytes]) -> bytes:
    return bulk(command[-1])


async def test_replies_reach_those_who_asked(open_link: OpenLink) -> None:
    async with FakeServer(echo) as server:
        link = open_link(server)
        replies = await asyncio.gather(*(link.call("ECHO", n) for n in range(500)))
        assert replies == [str(n).encode() for n in range(500)]
        assert len(server.writers) == 1


async def test_commands_go_out_in_the_order_in_which_they_were_asked(open_link: OpenLink) -> None:
    async with FakeServer(echo) as server:
        link = open_link(server)
        await asyncio.gather(link.call("ECHO", 0), link.call_many([("ECHO", 1), ("ECHO", 2)]), link.call("ECHO", 3))
        assert [command[1] for command in server.commands] == [b"0", b"1", b"2", b"3"]


async def test_commands_of_one_turn_are_not_answered_one_by_one(open_link: OpenLink) -> None:
    """They are on their way together: the server sees all before it answers the first."""
    async with FakeServer(lambda command: None) as server:
        link = open_link(server)
        await link.connect()
        asking = asyncio.gather(*(link.call("ECHO", n) for n in range(10)))
        await until(lambda: len(server.commands) == 10)
        await server.send(b"".join(b":%d\r\n" % n for n in range(10)))
        assert await asking == list(range(10))


async def test_replies_split_over_packets(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: None) as server:
        link = open_link(server)
        await link.connect()
        asking = asyncio.gather(link.call("A"), link.call_many([("B",), ("C",)]), link.call("D"))
        await until(lambda: len(server.commands) == 4)
        for byte in bulk(b"first\r\n") + b"*2\r\n:1\r\n*1\r\n" + bulk(b"deep") + b":3\r\n" + b"$-1\r\n":
            await server.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await asking == [b"first\r\n", [[1, [b"deep"]], 3], None]


async def test_a_reply_of_many_megabytes(open_link: OpenLink) -> None:
    big = b"x" * 20_000_000
    async with FakeServer(lambda command: bulk(big)) as server:
        assert await open_link(server).call("GET") == big


async def test_an_error_reply_is_one_for_its_caller_only(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: b"-ERR no\r\n" if command[0] == b"BAD" else OK) as server:
        link = open_link(server)
        good, bad, many = await asyncio.gather(
            link.call("GOOD"), link.call("BAD"), link.call_many([("GOOD",), ("BAD",)]), return_exceptions=True
        )
        assert good == b"OK"
        assert isinstance(bad, CommandError)
        assert "ERR no" in str(bad)
        assert isinstance(many, list)
        assert many[0] == b"OK"
        assert isinstance(many[1], ReplyError)


async def test_a_caller_that_is_cancelled_leaves_its_reply_to_nobody_else(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: None) as server:
        link = open_link(server)
        await link.connect()
        calls = [asyncio.create_task(link.call("ECHO", n)) for n in range(6)]
        await until(lambda: len(server.commands) == 6)
        for cancelled in (calls[0], calls[3], calls[5]):
            cancelled.cancel()
        await asyncio.sleep(0)
        last = asyncio.create_task(link.call("ECHO", 6))
        await until(lambda: len(server.commands) == 7)
        await server.send(b"".join(b":%d\r\n" % n for n in range(7)))
        assert await asyncio.gather(calls[1], calls[2], calls[4], last) == [1, 2, 4, 6]
        assert len(server.writers) == 1


async def test_a_caller_that_is_cancelled_before_its_command_left(open_link: OpenLink) -> None:
    async with FakeServer(echo) as server:
        link = open_link(server)
        await link.connect()
        first = asyncio.create_task(link.call("ECHO", 1))
        second = asyncio.create_task(link.call("ECHO", 2))
        await asyncio.sleep(0)
        second.cancel()
        assert await asyncio.gather(first, link.call("ECHO", 3)) == [b"1", b"3"]


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\xff\xfe", b"$-7\r\n", b"*1\r\n!\r\n"])
async def test_garbage_breaks_the_connection_and_another_is_opened(open_link: OpenLink, garbage: bytes) -> None:
    async with FakeServer(lambda command: garbage if len(server.writers) == 1 else b":7\r\n") as server:
        assert await open_link(server).call("GET") == 7
        assert len(server.writers) == 2


async def test_garbage_for_ever_is_an_error_within_patience(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: b"garbage\r\n") as server:
        link = open_link(server, patience_s=0.2)
        with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{server.port}"):
            await asyncio.wait_for(link.call("GET"), 5)


async def test_an_unasked_reply_is_not_taken_for_the_next_one(open_link: OpenLink) -> None:
    async with FakeServer(echo) as server:
        link = open_link(server)
        await link.connect()
        await server.send(b"-ERR max number of clients reached\r\n")
        await until(lambda: link._wire is not None and not link._wire.alive)
        assert await link.call("ECHO", "mine") == b"mine"
        assert len(server.writers) == 2


async def test_silence_breaks_the_connection_after_the_timeout(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: None if len(server.writers) == 1 else b":7\r\n") as server:
        assert await open_link(server).call("GET", timeout_s=0.1) == 7


async def test_what_must_not_be_sent_again_is_said_to_be_in_doubt(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: None) as server:
        link = open_link(server)
        with pytest.raises(RedisError, match="may or may not have run") as caught:
            await link.call("XADD", resend=False, timeout_s=0.1)
        assert caught.value.code == "CMQ-001"
        assert len(server.commands) == 1


@pytest.mark.parametrize(
    "refusal",
    ["MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1", "TRYAGAIN x", "CLUSTERDOWN x", "READONLY x", "LOADING x"],
)
@pytest.mark.parametrize("resend", [True, False])
async def test_what_the_server_did_not_run_is_sent_again(open_link: OpenLink, refusal: str, resend: bool) -> None:
    async with FakeServer(lambda command: f"-{refusal}\r\n".encode() if len(server.commands) < 3 else OK) as server:
        assert await open_link(server).call("XADD", resend=resend) == b"OK"
        assert len(server.commands) == 3


async def test_a_refusal_without_end_is_an_error_within_patience(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: b"-LOADING Redis is loading the dataset in memory\r\n") as server:
        link = open_link(server, patience_s=0.2)
        with pytest.raises(RedisError, match="LOADING"):
            await asyncio.wait_for(link.call("GET"), 5)


LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"


async def test_a_server_that_reads_its_data_is_waited_for_at_the_first_connect(open_link: OpenLink) -> None:
    """One that is not there is told about at once; this one will be there."""
    ready_at = monotonic() + 0.5
    async with FakeServer(echo, greet=lambda command: LOADING if monotonic() < ready_at else None) as server:
        await open_link(server, patience_s=5).connect()
    assert monotonic() >= ready_at


async def test_a_server_that_reads_its_data_for_long_is_an_error_within_patience(open_link: OpenLink) -> None:
    async with FakeServer(echo, greet=lambda command: LOADING) as server:
        with pytest.raises(RedisError, match=r"(?i)loading"):
            await asyncio.wait_for(open_link(server, patience_s=0.3).connect(), 5)


async def test_all_who_wait_for_a_dead_server_are_told_together(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: None) as server:
        link = open_link(server, patience_s=0.5)
        await link.connect()
    started = monotonic()
    errors = await asyncio.gather(*(link.call("GET", n) for n in range(20)), return_exceptions=True)
    assert all(isinstance(error, RedisError) for error in errors)
    assert monotonic() - started < 3
    with pytest.raises(RedisError):
        await link.connect()


async def test_a_server_that_is_back_is_used_at_once_after_a_failure(open_link: OpenLink) -> None:
    async with FakeServer(echo, greet=lambda command: b"-ERR not yet\r\n" if refusing else None) as server:
        refusing = True
        link = open_link(server, patience_s=0)
        with pytest.raises(RedisError, match="not yet"):
            await link.connect()
        refusing = False
        await link.connect()
        assert await link.call("ECHO", 1) == b"1"


async def test_closing_ends_those_who_wait(open_link: OpenLink) -> None:
    async with FakeServer(lambda command: None) as server:
        link = open_link(server)
        await link.connect()
        asking = asyncio.create_task(link.call("GET"))
        await until(lambda: len(server.commands) == 1)
        await link.close()
        with pytest.raises(ShutdownError):
            await asking
        with pytest.raises(ShutdownError):
            await link.call("GET")


async def test_a_script_that_the_server_forgot_is_sent_as_text(open_link: OpenLink) -> None:
    script = scripts.load("locks/acquire", on_full_server="lock")

    def forget(command: list[bytes]) -> bytes:
        return b"-NOSCRIPT No matching script.\r\n" if command[0] == b"EVALSHA" else bulk(command[-1])

    async with FakeServer(forget) as server:
        link = open_link(server)
        assert await link.run(script, ["k"], ["v"], resend=False) == b"v"
        assert await link.run_many(script, [(["k"], ["a"]), (["k"], ["b"])]) == [b"a", b"b"]
        assert await link.run_many(script, []) == []
        assert [command[0] for command in server.commands] == [b"EVALSHA", b"EVAL"] + [b"EVALSHA"] * 2 + [b"EVAL"] * 2
        assert server.commands[1][1].startswith(b"#!lua flags=allow-oom\n")


async def test_only_the_calls_that_did_not_run_are_run_again(open_link: OpenLink) -> None:
    def forget_some(command: list[bytes]) -> bytes:
        known = command[0] == b"EVAL" or command[-1] == b"a"
        return bulk(command[-1]) if known else b"-NOSCRIPT No matching script.\r\n"

    async with FakeServer(forget_some) as server:
        link = open_link(server)
        calls = [(["k"], [value]) for value in ("a", "b", "a", "c")]
        assert await link.run_many(scripts.load("locks/acquire"), calls) == [b"a", b"b", b"a", b"c"]
        assert [command[-1] for command in server.commands if command[0] == b"EVAL"] == [b"b", b"c"]
