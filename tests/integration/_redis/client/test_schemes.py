"""The ways to say where the server is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from redis.asyncio import Redis

from chasqui_engine import Queue, QueueEvents, RedisError, SyncQueue, version
from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime import identity
from tests.servers import REDIS_7, ServerProcess
from tests.support.ledger import check_round_trip, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


async def test_redis(redis_url: str, queue_name: str) -> None:
    await check_round_trip(queue_name, redis_url)


async def test_without_a_url_the_variable_says_where(
    valkey_url: str, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHASQUI_REDIS_URL", valkey_url)
    await check_round_trip(queue_name, None)


async def test_without_a_url_and_variable_it_is_the_local_default(
    queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CHASQUI_REDIS_URL", raising=False)
    try:
        async with Queue(queue_name) as queue, Redis() as client:
            job = await queue.add("n", 1, delay_ms=60_000)
            assert await client.exists(f"{{chasqui:{queue_name}}}:delayed")
            assert await queue.cancel_delayed(job.id)
    except RedisError as err:  # most often nobody listens there
        assert "127.0.0.1:6379" in str(err)  # noqa: PT017 - either way is right


async def test_a_database_number(valkey_url: str, queue_name: str) -> None:
    url = valkey_url.replace("/0", "/5")
    await check_round_trip(queue_name, url)
    async with Redis.from_url(url) as fifth, Redis.from_url(valkey_url) as first:
        assert await fifth.exists(f"{{chasqui:{queue_name}}}:stream")
        assert not await first.exists(f"{{chasqui:{queue_name}}}:stream")


async def test_a_database_that_the_server_does_not_have(valkey_url: str) -> None:
    async with Queue("beyond", redis_url=valkey_url.replace("/0", "/999")) as queue:
        with pytest.raises(RedisError, match="out of range"):
            await queue.add("n", 1)


async def test_a_unix_socket_with_a_database(queue_name: str) -> None:
    with ServerProcess(REDIS_7, unix_socket=True) as server:
        await check_round_trip(queue_name, server.url)
        await check_round_trip(queue_name, f"{server.url}?db=3")
        path = server.url.removeprefix("unix://")
        async with Redis(unix_socket_path=path, db=3) as third:
            assert await third.exists(f"{{chasqui:{queue_name}}}:stream")


async def test_a_unix_socket_with_a_login() -> None:
    with ServerProcess(unix_socket=True, extra_args=("--requirepass", "a/b@c")) as server:
        await check_round_trip("q", server.url.replace("unix://", f"unix://:{quote('a/b@c', safe='')}@"))


async def test_embedded_through_queue_and_worker(queue_name: str) -> None:
    await check_round_trip(queue_name, "embedded://")


async def test_embedded_in_a_folder_keeps_what_was_added(queue_name: str, tmp_path: Path) -> None:
    url = f"embedded://{quote(str(tmp_path / 'a folder'))}?appendfsync=always"
    async with Queue(queue_name, redis_url=url) as queue:
        await queue.add("n", "kept")
    async with working(queue_name, url, store_results=True), Queue(queue_name, redis_url=url) as queue:
        job = await queue.add("n", "new")
        assert await job.wait_for_result(timeout=10) == "new"
        async with QueueEvents(queue_name, redis_url=url, last_event_id="0") as events:
            async for event in events:
                if event.name == "completed" and event.job_id == job.id:
                    break


def test_embedded_for_the_blocking_queue(queue_name: str) -> None:
    with SyncQueue(queue_name, redis_url="embedded://") as queue:
        queue.add("n", 1, job_id="a", delay_ms=60_000)
        assert queue.cancel_delayed("a")


@pytest.mark.parametrize("name", ["with spaces", "ärger-队列-🚚", "tab-less~!@#$%"])
async def test_queue_names_that_client_list_cannot_show(valkey_url: str, queue_name: str, name: str) -> None:
    await check_round_trip(f"{name}-{queue_name}", valkey_url)


async def test_connections_are_told_apart_in_client_list(redis_url: str, queue_name: str, raw: Redis) -> None:
    async with working(queue_name, redis_url), Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add("n", 1)
        names = {client["name"] for client in await raw.client_list()}
        assert {f"chasqui-producer:{queue_name}", f"chasqui-worker:{queue_name}"} <= names


async def test_client_list_shows_the_library(
    redis_url: str, queue_name: str, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_program", "")
    with BulkConnection(redis_url, QueueKeys(queue_name).stream, client_name=f"bulk:{queue_name}") as bulk:
        bulk.connect()
        async with working(queue_name, redis_url), Queue(queue_name, redis_url=redis_url) as queue:
            await queue.add("n", 1)
            # Redis 7.0 has no such fields.
            expected = ("chasqui", version()) if bulk.capabilities.setinfo else (None, None)

            async def all_are_shown() -> bool:
                ours = [client for client in await raw.client_list() if queue_name in client["name"]]
                return len(ours) > 2 and {(one.get("lib-name"), one.get("lib-ver")) for one in ours} == {expected}

            # A connection says it without waiting for the answer.
            await until(all_are_shown)


async def test_client_list_shows_the_program_that_the_library_runs_in(
    redis_url: str, queue_name: str, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_program", "")
    identity.name_program("air flow", "3.3.2")
    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add("n", 1)
        ours = [client for client in await raw.client_list() if queue_name in client["name"]]
    assert {client.get("lib-name", "chasqui(air_flow_v3.3.2)") for client in ours} == {"chasqui(air_flow_v3.3.2)"}


async def test_no_server_refuses_a_command_of_a_connection_that_opens(
    redis_url: str, queue_name: str, raw: Redis
) -> None:
    async def refused() -> int:
        return sum(error["count"] for error in (await raw.info("errorstats")).values())

    async def look() -> None:
        async with Queue(queue_name, redis_url=redis_url) as queue:
            await queue.is_paused()

    await look()
    before = await refused()
    await look()
    assert await refused() == before


async def test_closing_leaves_no_connection_behind(redis_url: str, queue_name: str, raw: Redis) -> None:
    await check_round_trip(queue_name, redis_url)
    left = [client["name"] for client in await raw.client_list() if queue_name in client["name"]]
    assert left == []
