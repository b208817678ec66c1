"""The servers that the other tests rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis

from tests.servers import KINDS, REDIS_7, ServerProcess, make_tls_files

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis


DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


async def test_the_raw_client_speaks_to_a_server_of_each_kind(raw: Redis, queue_name: str) -> None:
    await raw.set(queue_name, b"\x00bytes", ex=10)
    assert await raw.get(queue_name) == b"\x00bytes"


def test_redis_86_knows_what_came_with_it(redis86_url: str) -> None:
    with redis.Redis.from_url(redis86_url) as client:
        assert client.info("server")["redis_version"].startswith("8.6.")


def test_valkey_is_the_default(valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        assert client.info("server")["valkey_version"].startswith("9.1.")


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_server_comes_back_on_the_same_port_with_its_data(kind: str) -> None:
    with ServerProcess(kind, DURABLE) as server, redis.Redis.from_url(server.url) as client:
        client.set("kept", "yes")
        server.kill()
        assert not server.running
        with pytest.raises(redis.ConnectionError):
            client.ping()
        server.start()
        assert client.get("kept") == b"yes"
        server.restart()
        assert client.get("kept") == b"yes"
    assert not server.folder.exists()


def test_a_private_server_on_a_unix_socket() -> None:
    with ServerProcess(unix_socket=True) as server, redis.Redis.from_url(server.url) as client:
        assert client.ping()


def test_a_private_server_with_tls(tmp_path: Path) -> None:
    with ServerProcess(REDIS_7, tls=make_tls_files(tmp_path)) as server, redis.Redis.from_url(server.url) as client:
        assert server.url.startswith("rediss://")
        assert client.ping()
