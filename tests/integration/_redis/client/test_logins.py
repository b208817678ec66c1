"""Who one is to the server: ACL users, and credentials that change while programs run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from redis.asyncio import Redis

from chasqui_engine import Consumer, Producer, ProducerConfig, Queue, QueueEvents, RedisError, Worker
from tests.servers import ServerProcess
from tests.support.ledger import Ledger, check_round_trip, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from chasqui_engine._redis.client.endpoints import FetchCredentials

PASSWORD = "p@ss/w:rd?#%"


@pytest.fixture
async def admin() -> AsyncIterator[Redis]:
    """A client of a server of the test's own, which knows a user `jobs`."""
    with ServerProcess() as server:
        async with Redis.from_url(server.url) as client:
            await client.execute_command("ACL", "SETUSER", "jobs", "on", f">{PASSWORD}", "~{chasqui:*", "&*", "+@all")
            yield client


def url_of(admin: Redis, login: str = "") -> str:
    return f"redis://{login}127.0.0.1:{admin.connection_pool.connection_kwargs['port']}/0"


def address_of(admin: Redis) -> str:
    return f"127.0.0.1:{admin.connection_pool.connection_kwargs['port']}"


class Vault:
    """Gives out credentials, and keeps a record of who asked for which server."""

    def __init__(self, user: str | None, password: str | None) -> None:
        self.user = user
        self.password = password
        self.asked: list[str | None] = []

    def fetch(self, address: str | None) -> tuple[str | None, str | None]:
        self.asked.append(address)
        return self.user, self.password

    async def fetch_slowly(self, address: str | None) -> tuple[str | None, str | None]:
        await asyncio.sleep(0.01)
        return self.fetch(address)


async def test_an_acl_user(admin: Redis, queue_name: str) -> None:
    await check_round_trip(queue_name, url_of(admin, f"jobs:{quote(PASSWORD, safe='')}@"))
    users = {client["user"] for client in await admin.client_list() if client["name"].startswith("chasqui")}
    assert users <= {"jobs"}


async def test_a_password_of_the_default_user(queue_name: str) -> None:
    with ServerProcess(extra_args=("--requirepass", PASSWORD)) as server:
        login = f":{quote(PASSWORD, safe='')}@"
        await check_round_trip(queue_name, server.url.replace("redis://", f"redis://{login}"))


async def test_what_an_acl_forbids_is_an_error_that_says_so(admin: Redis, queue_name: str) -> None:
    await admin.execute_command("ACL", "SETUSER", "reader", "on", ">r", "~*", "+@read", "+@connection", "+info")
    async with Queue(queue_name, redis_url=url_of(admin, "reader:r@")) as queue:
        with pytest.raises(RedisError, match="NOPERM") as caught:
            await queue.add("n", 1)
    assert caught.value.code == "CMQ-314"


async def test_a_user_who_may_not_ask_what_the_server_is(admin: Redis, queue_name: str) -> None:
    await admin.execute_command("ACL", "SETUSER", "jobs", "-info", "-command", "-command|info")
    await check_round_trip(queue_name, url_of(admin, f"jobs:{quote(PASSWORD, safe='')}@"))


@pytest.mark.parametrize("kind", ["fetch", "fetch_slowly"])
async def test_a_credential_provider(admin: Redis, queue_name: str, kind: str) -> None:
    vault = Vault("jobs", PASSWORD)
    provider: FetchCredentials = getattr(vault, kind)
    await check_round_trip(queue_name, url_of(admin), credential_provider=provider)
    assert len(vault.asked) >= 4  # producer, results, reader, commands
    assert set(vault.asked) == {address_of(admin)}
    async with QueueEvents(
        queue_name, redis_url=url_of(admin), credential_provider=provider, last_event_id="0"
    ) as events:
        assert (await anext(aiter(events))).name


async def test_a_provider_goes_before_the_login_of_the_url(admin: Redis, queue_name: str) -> None:
    await check_round_trip(
        queue_name, url_of(admin, "nobody:wrong@"), credential_provider=Vault("jobs", PASSWORD).fetch
    )


async def test_a_provider_that_knows_only_a_password(queue_name: str) -> None:
    with ServerProcess(extra_args=("--requirepass", PASSWORD)) as server:
        await check_round_trip(queue_name, server.url, credential_provider=Vault(None, PASSWORD).fetch)


async def test_a_provider_that_knows_nothing_logs_in_as_nobody(valkey_url: str, queue_name: str) -> None:
    await check_round_trip(queue_name, valkey_url, credential_provider=Vault(None, None).fetch)


async def test_a_provider_for_a_unix_socket_is_told_its_path(queue_name: str) -> None:
    with ServerProcess(unix_socket=True, extra_args=("--requirepass", "x")) as server:
        vault = Vault(None, "x")
        await check_round_trip(queue_name, server.url, credential_provider=vault.fetch)
        assert set(vault.asked) == {server.url.removeprefix("unix://")}


async def test_the_password_changes_between_two_connections(admin: Redis, queue_name: str) -> None:
    """The server forgets the old password and drops everybody; all come back with the new one."""
    vault = Vault("jobs", PASSWORD)
    url = url_of(admin)
    async with (
        working(queue_name, url, store_results=True, credential_provider=vault.fetch_slowly),
        Queue(queue_name, redis_url=url, credential_provider=vault.fetch) as queue,
    ):
        for turn in range(3):
            job = await queue.add("n", turn, job_id=f"{queue_name}-{turn}")
            assert await job.wait_for_result(timeout=10) == turn
            asked = len(vault.asked)
            vault.password = f"password-{turn}"
            await admin.execute_command("ACL", "SETUSER", "jobs", "resetpass", f">{vault.password}")
            await admin.execute_command("CLIENT", "KILL", "USER", "jobs")
            await until(lambda asked=asked: len(vault.asked) > asked)
        job = await queue.add("n", "last", job_id=f"{queue_name}-last")
        assert await job.wait_for_result(timeout=10) == "last"


async def test_a_provider_that_lags_behind_is_asked_again(admin: Redis, queue_name: str) -> None:
    vault = Vault("jobs", PASSWORD)
    url = url_of(admin)
    async with (
        working(queue_name, url, credential_provider=vault.fetch) as ledger,
        Queue(queue_name, redis_url=url, credential_provider=vault.fetch) as queue,
    ):
        await queue.add("n", 1)
        await until(ledger.has(1))
        await admin.execute_command("ACL", "SETUSER", "jobs", "resetpass", ">new")
        await admin.execute_command("CLIENT", "KILL", "USER", "jobs")
        asked = len(vault.asked)
        await until(lambda: len(vault.asked) > asked + 3)
        vault.password = "new"
        await queue.add("n", 2, job_id="two")
        await until(ledger.has(2))


class ProviderError(Exception):
    """What a test's provider raises."""


async def test_a_provider_that_fails(admin: Redis, queue_name: str) -> None:
    def fail(address: str | None) -> tuple[str | None, str | None]:
        raise ProviderError(address)

    async with Queue(queue_name, redis_url=url_of(admin), credential_provider=fail) as queue:
        with pytest.raises(RedisError, match=rf"{address_of(admin)}.*credential_provider.*ProviderError") as caught:
            await queue.add("n", 1)
    assert isinstance(caught.value.__cause__, BaseException)
    assert isinstance(caught.value.__cause__.__cause__, ProviderError)


async def test_a_provider_that_fails_for_a_while_does_not_end_a_worker(admin: Redis, queue_name: str) -> None:
    vault = Vault("jobs", PASSWORD)
    failures = 0
    broken = False

    def fetch(address: str | None) -> tuple[str | None, str | None]:
        nonlocal failures
        if broken:
            failures += 1
            raise ProviderError
        return vault.fetch(address)

    async with (
        working(queue_name, url_of(admin), credential_provider=fetch) as ledger,
        Queue(queue_name, redis_url=url_of(admin)) as queue,
    ):
        await queue.add("n", 1)
        await until(ledger.has(1))
        broken = True
        await admin.execute_command("CLIENT", "KILL", "USER", "jobs")
        await until(lambda: failures > 2)
        broken = False
        await queue.add("n", 2)
        await until(ledger.has(2))


@pytest.mark.parametrize("answer", ["password", None, ("a", "b", "c")])
async def test_a_provider_that_answers_with_something_else(valkey_url: str, answer: object) -> None:
    async with Queue("q", redis_url=valkey_url, credential_provider=lambda address: answer) as queue:  # type: ignore[arg-type,return-value]
        with pytest.raises(RedisError, match="credential_provider"):
            await queue.add("n", 1)


async def test_providers_of_producer_and_consumer(admin: Redis, queue_name: str) -> None:
    vault = Vault("jobs", PASSWORD)
    config = ProducerConfig(queue_name=queue_name)
    producer = await Producer.connect(url_of(admin), config, credential_provider=vault.fetch)
    await producer.add(1)
    await producer.close()
    assert vault.asked == [address_of(admin)]
    assert Consumer(url_of(admin), credential_provider=vault.fetch)
    ledger = Ledger()
    worker = Worker(queue_name, ledger.handle, redis_url=url_of(admin), credential_provider=vault.fetch)
    running = asyncio.create_task(worker.run())
    await until(ledger.has(1))
    await worker.close()
    await running
