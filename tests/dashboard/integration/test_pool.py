"""Connections are shared, bounded, and closed when nobody uses them."""

from __future__ import annotations

import asyncio

import pytest
from fastapi import HTTPException

from chasqui_engine import RedisError
from chasqui_engine.dashboard import FixedConnections, pool
from chasqui_engine.dashboard.pool import Pool
from tests.support.waiting import until


@pytest.fixture
def connections(valkey_url: str) -> FixedConnections:
    return FixedConnections({"main": valkey_url, "away": "redis://127.0.0.1:1/0"})


async def test_all_who_ask_share_one(connections: FixedConnections, queue_name: str) -> None:
    shared = Pool(connections, "default")

    async def use() -> int:
        async with shared.producer("main", queue_name) as producer:
            await producer.counts()
            return id(producer)

    assert len(set(await asyncio.gather(*(use() for _ in range(20))))) == 1
    await shared.close()


async def test_what_is_idle_is_closed(
    connections: FixedConnections, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_IDLE_S", 0.05)
    shared = Pool(connections, "default")
    async with shared.producer("main", queue_name) as first:
        await asyncio.sleep(0.2)
        await first.counts()  # in use, it stays open

    async def is_another() -> bool:
        async with shared.producer("main", queue_name) as second:
            await second.counts()
            return second is not first

    await until(is_another, every_s=0.2)  # asked more often, it would never be idle
    await shared.close()


async def test_there_is_an_end_to_them(
    connections: FixedConnections, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MOST_OPEN", 2)
    shared = Pool(connections, "default")
    async with shared.producer("main", f"{queue_name}-1"):
        async with shared.producer("main", f"{queue_name}-2"):
            with pytest.raises(HTTPException) as refused:
                async with shared.producer("main", f"{queue_name}-3"):
                    raise AssertionError("not reached")
            assert refused.value.status_code == 503
        # One is idle now, and makes room.
        async with shared.producer("main", f"{queue_name}-3") as third:
            await third.counts()
    assert len(shared._kept) == 2
    await shared.close()


async def test_one_that_does_not_open_is_tried_again(connections: FixedConnections, queue_name: str) -> None:
    shared = Pool(connections, "default")
    for _ in range(2):
        with pytest.raises(RedisError):
            async with shared.producer("away", queue_name):
                raise AssertionError("not reached")
    with pytest.raises(HTTPException) as unknown:
        async with shared.monitor("nowhere"):
            raise AssertionError("not reached")
    assert unknown.value.status_code == 404
    await shared.close()
