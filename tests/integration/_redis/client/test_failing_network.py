"""A network that cuts, goes silent and drags, between the engine and a healthy server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import AddOptions, Producer, ProducerConfig, Queue, RedisError
from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import scripts
from chasqui_engine.runtime.clock import monotonic
from tests.support.connections.proxy import Proxy
from tests.support.ledger import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable


@pytest.fixture
async def proxy(valkey_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(valkey_url) as proxy:
        yield proxy


@pytest.fixture
async def behind(valkey_url: str) -> AsyncIterator[Redis]:
    """A client that goes to the server directly; the server knows the scripts, so that one command adds a job."""
    async with Redis.from_url(valkey_url) as client:
        for name in ("stream/add", "delayed/schedule"):
            await client.script_load(scripts.load(name).source(True))
        yield client


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that does not come within a second is given up."""
    monkeypatch.setattr("chasqui_engine._redis.client.link.REPLY_TIMEOUT_S", 1.0)
    monkeypatch.setattr("chasqui_engine._redis.commands.group.LATE_S", 1.0)
    monkeypatch.setitem(Link.call.__kwdefaults__, "timeout_s", 1.0)  # type: ignore[arg-type]


async def has_length(client: Redis, key: str, length: int) -> None:
    """Waits until the server has so many entries there."""
    count = client.zcard if key.endswith("delayed") else client.xlen
    for _ in range(1000):
        if await count(key) == length:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{key} has {await count(key)} entries, not {length}")


NOW: dict[str, Callable[[Producer], Awaitable[Any]]] = {
    "add": lambda producer: producer.add(1),
    "add_bulk": lambda producer: producer.add_bulk([1, 2, 3]),
    "add_in": lambda producer: producer.add_in(60, 1),
    "one of many without an id": lambda producer: producer.add_now([(1, _with_id("a")), (2, _with_id(None))]),
}
AGAIN: dict[str, Callable[[Producer], Awaitable[Any]]] = {
    "add_with_id": lambda producer: producer.add_with_id("a", 1),
    "add_now with ids": lambda producer: producer.add_now([(n, _with_id(f"id-{n}")) for n in range(5)]),
    "add_in_with_id": lambda producer: producer.add_in_with_id("a", 60, 1),
    "add_in_bulk_with_ids": lambda producer: producer.add_in_bulk_with_ids(60, [("a", 1), ("b", 2)]),
}
LENGTHS = {"add": 1, "add_bulk": 3, "add_in": 1, "one of many without an id": 2} | {
    "add_with_id": 1,
    "add_now with ids": 5,
    "add_in_with_id": 1,
    "add_in_bulk_with_ids": 2,
}


def _with_id(job_id: str | None) -> AddOptions:
    return AddOptions(id=job_id)


@pytest.mark.parametrize("how", NOW)
async def test_an_add_that_was_cut_is_said_to_be_in_doubt(
    proxy: Proxy, behind: Redis, queue_name: str, how: str
) -> None:
    async with await Producer.connect(proxy.url, ProducerConfig(queue_name=queue_name)) as producer:
        key = producer.delayed_key if "_in" in how else producer.stream_key
        proxy.hold_replies()
        adding = asyncio.ensure_future(NOW[how](producer))
        await has_length(behind, key, LENGTHS[how])
        proxy.cut()
        with pytest.raises(RedisError, match="may or may not have run") as caught:
            await adding
        assert f"127.0.0.1:{proxy.port}" in str(caught.value)
        assert caught.value.code == "CMQ-001"
        await has_length(behind, key, LENGTHS[how])


@pytest.mark.parametrize("how", AGAIN)
async def test_an_add_that_can_be_told_apart_is_sent_again_and_there_once(
    proxy: Proxy, behind: Redis, queue_name: str, how: str
) -> None:
    async with await Producer.connect(proxy.url, ProducerConfig(queue_name=queue_name)) as producer:
        delayed = "_in" in how
        key = producer.delayed_key if delayed else producer.stream_key
        proxy.hold_replies()
        adding = asyncio.ensure_future(AGAIN[how](producer))
        await has_length(behind, key, LENGTHS[how])
        proxy.cut()
        await adding
        assert await (behind.zcard(key) if delayed else behind.xlen(key)) == LENGTHS[how]


async def test_cuts_under_load(proxy: Proxy, queue_name: str) -> None:
    """Twenty cuts while jobs with ids come and go: no error, none lost, none added twice."""
    count = 400
    async with (
        working(queue_name, proxy.url) as ledger,
        Queue(queue_name, redis_url=proxy.url) as queue,
    ):
        await queue.add("n", "first")
        await until(ledger.has(1))
        cutting = asyncio.create_task(_cut_often(proxy, 20))
        for start in range(0, count, 10):
            await asyncio.gather(*(queue.add("n", n, job_id=f"id-{n}") for n in range(start, start + 10)))
            await asyncio.sleep(0.01)
        await cutting
        await until(ledger.has(count + 1))
    assert set(ledger.runs) == {"first", *range(count)}
    assert ledger.twice == 0


async def _cut_often(proxy: Proxy, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0.03)
        proxy.cut()


@pytest.mark.usefixtures("soon")
async def test_connections_that_went_silent_are_replaced(proxy: Proxy, queue_name: str) -> None:
    """Half-open: nobody says goodbye. Queue, worker and results find out by themselves."""
    async with (
        working(queue_name, proxy.url, store_results=True) as ledger,
        Queue(queue_name, redis_url=proxy.url) as queue,
    ):
        job = await queue.add("n", "before", job_id="before")
        assert await job.wait_for_result(timeout=10) == "before"
        proxy.freeze()
        started = monotonic()
        job = await queue.add("n", "after", job_id="after")
        assert await job.wait_for_result(timeout=20) == "after"
        assert monotonic() - started < 10
    assert ledger.runs == {"before": 1, "after": 1}


@pytest.mark.usefixtures("soon")
async def test_a_network_that_is_silent_for_a_while(
    proxy: Proxy, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chasqui_engine.admin.admin.A_MOMENT_S", 0.5)
    url = f"{proxy.url}?socket_connect_timeout=0.3"
    async with (
        working(queue_name, url) as ledger,
        Queue(queue_name, redis_url=url) as queue,
    ):
        await queue.add("n", 1)
        await until(ledger.has(1))
        proxy.stall()
        with pytest.raises(RedisError, match=rf"127\.0\.0\.1:{proxy.port}"):
            async with asyncio.timeout(15):
                await queue.add("n", 2, job_id="two")
        proxy.flow()
        await queue.add("n", 2, job_id="two")
        await until(ledger.has(2))
    assert ledger.runs == {1: 1, 2: 1}


async def test_a_slow_network_is_only_slow(proxy: Proxy, queue_name: str) -> None:
    proxy.delay_s = 0.05
    async with (
        working(queue_name, proxy.url, store_results=True, claim_min_idle_ms=5000) as ledger,
        Queue(queue_name, redis_url=proxy.url) as queue,
    ):
        jobs = await asyncio.gather(*(queue.add("n", n) for n in range(50)))
        assert await asyncio.gather(*(job.wait_for_result(timeout=20) for job in jobs)) == list(range(50))
    assert ledger.twice == 0
    assert proxy.connections <= 5


async def test_a_server_that_pauses_its_clients(redis_url: str, raw: Redis, queue_name: str) -> None:
    async with (
        working(queue_name, redis_url, store_results=True) as ledger,
        Queue(queue_name, redis_url=redis_url) as queue,
    ):
        await queue.add("n", "first")
        await until(ledger.has(1))
        await raw.execute_command("CLIENT", "PAUSE", 500, "ALL")
        jobs = await asyncio.gather(*(queue.add("n", n) for n in range(20)))
        assert await asyncio.gather(*(job.wait_for_result(timeout=20) for job in jobs)) == list(range(20))
    assert ledger.twice == 0
