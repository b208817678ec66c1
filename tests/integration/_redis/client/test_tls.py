"""TLS with a real server: verified by default, by authority and by name; client certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis
import trustme

from chasqui_engine import Queue, QueueEvents, RedisError
from tests.servers import REDIS_7, ServerProcess, TlsFiles, make_tls_files
from tests.support.ledger import check_round_trip, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return make_tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(tls: TlsFiles) -> Iterator[ServerProcess]:
    with ServerProcess(REDIS_7, tls=tls) as server:
        yield server


async def add_one(url: str, **options: bool) -> None:
    async with Queue("tls", redis_url=url, **options) as queue:
        await queue.add("n", 1)


async def test_a_server_whose_authority_is_known(server: ServerProcess, queue_name: str) -> None:
    await check_round_trip(queue_name, server.url)


async def test_tls_as_an_argument(server: ServerProcess, queue_name: str) -> None:
    url = server.url.replace("rediss://", "redis://")
    await check_round_trip(queue_name, url, tls=True)
    async with QueueEvents(queue_name, redis_url=url, tls=True, last_event_id="0") as events:
        assert (await anext(aiter(events))).job_id


async def test_a_server_that_nobody_vouches_for_is_refused(server: ServerProcess) -> None:
    with pytest.raises(RedisError, match=r"(?i)certificate verify failed") as caught:
        await add_one(server.url.partition("?")[0])
    assert f"127.0.0.1:{server.port}" in str(caught.value)


async def test_a_server_of_another_authority_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    other = make_tls_files(tmp_path)
    with pytest.raises(RedisError, match=r"(?i)certificate verify failed"):
        await add_one(f"rediss://127.0.0.1:{server.port}?ssl_ca_certs={other.authority}")


async def test_verification_can_be_given_up_explicitly(server: ServerProcess) -> None:
    await add_one(f"rediss://127.0.0.1:{server.port}?ssl_cert_reqs=none")


async def test_plain_words_to_a_tls_server_are_an_error(server: ServerProcess) -> None:
    with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{server.port}"):
        await add_one(f"redis://127.0.0.1:{server.port}?socket_connect_timeout=1")


async def test_tls_to_a_plain_server_is_an_error(valkey_url: str) -> None:
    with pytest.raises(RedisError):
        await add_one(f"{valkey_url}?socket_connect_timeout=0.5", tls=True)


async def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("elsewhere.example")
    files = TlsFiles(certificate=tmp_path / "c.pem", key=tmp_path / "k.pem", authority=tmp_path / "ca.pem")
    leaf.private_key_pem.write_to_path(files.key)
    leaf.cert_chain_pems[0].write_to_path(files.certificate)
    authority.cert_pem.write_to_path(files.authority)
    server = ServerProcess(REDIS_7, tls=files)
    # The server's own test of readiness verifies the name, which is the point here not to hold.
    server._tls_ready_on = lambda port: _answers_anybody(port, files)  # type: ignore[method-assign]
    with server:
        with pytest.raises(RedisError, match=r"(?i)certificate is not valid for '127\.0\.0\.1'|hostname mismatch"):
            await add_one(server.url)
        await add_one(f"{server.url}&ssl_check_hostname=false")


def _answers_anybody(port: int, files: TlsFiles) -> bool:
    options = {"ssl_ca_certs": str(files.authority), "ssl_check_hostname": False}
    with redis.Redis(port=port, ssl=True, **options) as client:
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False


async def test_client_certificates(tls: TlsFiles, queue_name: str, tmp_path: Path) -> None:
    with ServerProcess(REDIS_7, tls=tls) as server:
        with redis.Redis(port=server.port, ssl=True, ssl_ca_certs=str(tls.authority)) as client:
            client.config_set("tls-auth-clients", "yes")
        with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{server.port}"):
            await add_one(server.url)
        stranger = make_tls_files(tmp_path)
        with pytest.raises(RedisError):
            await add_one(f"{server.url}&ssl_certfile={stranger.certificate}&ssl_keyfile={stranger.key}")
        known = f"{server.url}&ssl_certfile={tls.certificate}&ssl_keyfile={tls.key}"
        await check_round_trip(queue_name, known)


async def test_tls_connections_mend_themselves(server: ServerProcess, tls: TlsFiles, queue_name: str) -> None:
    async with (
        working(queue_name, server.url, store_results=True) as ledger,
        Queue(queue_name, redis_url=server.url) as queue,
    ):
        await queue.add("n", 0)
        await until(ledger.has(1))
        with redis.Redis(port=server.port, ssl=True, ssl_ca_certs=str(tls.authority)) as client:
            for turn in range(3):
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                job = await queue.add("n", 1, job_id=f"{queue_name}-{turn}")
                assert await job.wait_for_result(timeout=10) == 1


async def test_large_jobs_go_through_tls_whole(server: ServerProcess, queue_name: str) -> None:
    data = "x" * 900_000
    async with (
        working(queue_name, server.url, store_results=True),
        Queue(queue_name, redis_url=server.url) as queue,
    ):
        job = await queue.add("n", data)
        assert await job.wait_for_result(timeout=10) == data
