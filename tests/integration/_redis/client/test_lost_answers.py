"""The connection breaks after the server did what it was asked, before it could say so: nothing is done twice,
and nobody is given an answer that is not true."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import Producer, ProducerConfig, RedisError, RepeatableSpec, RepeatPattern
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.connections.proxy import Proxy
from tests.support.queues import delayed_jobs, waiting_jobs
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from redis.asyncio import Redis

SPEC = RepeatableSpec("n", RepeatPattern.every(60_000), 1, key="k")


class Shaky:
    """A producer whose answers get lost on the way."""

    def __init__(self, producer: Producer, proxy: Proxy) -> None:
        self.producer = producer
        self._proxy = proxy

    async def lose_answer(self, call: Any, done: Callable[[], Any]) -> Any:
        """Makes the call, and breaks the connection as soon as the server has done it."""
        self._proxy.hold_replies()
        calling = asyncio.create_task(call)
        await until(done)
        self._proxy.cut()
        return await asyncio.wait_for(calling, timeout=20)


@asynccontextmanager
async def opened(redis_url: str, queue_name: str) -> AsyncIterator[Shaky]:
    config = ProducerConfig(queue_name=queue_name, max_stream_len=2)
    async with Proxy(redis_url) as proxy, await Producer.connect(proxy.url, config) as producer:
        yield Shaky(producer, proxy)


@pytest.fixture
async def shaky(redis_url: str, queue_name: str, producer: Producer) -> AsyncIterator[Shaky]:
    # The scripts are known to the server before: otherwise the first answer says so, and that one is not to be lost.
    await producer.add_with_id("known", 1)
    await producer.add_in_with_id("known too", 60, 1)
    await producer.cancel_delayed("known too")
    await producer.upsert_repeatable(SPEC)
    await producer.remove_repeatable("k")
    async with opened(redis_url, queue_name) as one:
        yield one


async def test_an_add_with_an_id_is_sent_again(shaky: Shaky, raw: Redis, queue_name: str) -> None:
    """Also where the queue is full by then: it is the job itself that fills it."""

    async def added() -> bool:
        return len(await waiting_jobs(raw, queue_name)) == 2

    assert await shaky.lose_answer(shaky.producer.add_with_id("mine", 2), added) == "mine"
    assert [job.id for job in await waiting_jobs(raw, queue_name)] == ["known", "mine"]


async def test_an_add_without_an_id_is_in_doubt(shaky: Shaky, raw: Redis, queue_name: str) -> None:
    async def added() -> bool:
        return len(await waiting_jobs(raw, queue_name)) == 2

    with pytest.raises(RedisError, match="may or may not"):
        await shaky.lose_answer(shaky.producer.add(2), added)
    assert await added()


async def test_a_delayed_add_with_an_id_is_sent_again(shaky: Shaky, raw: Redis, queue_name: str) -> None:
    call = shaky.producer.add_in_with_id("mine", 60, 2)
    assert await shaky.lose_answer(call, lambda: delayed_jobs(raw, queue_name)) == "mine"
    assert [job.id for job, _ in await delayed_jobs(raw, queue_name)] == ["mine"]


async def test_a_delayed_add_without_an_id_is_in_doubt(shaky: Shaky, raw: Redis, queue_name: str) -> None:
    """Sent again, it would run twice if it was promoted in between."""
    with pytest.raises(RedisError, match="may or may not"):
        await shaky.lose_answer(shaky.producer.add_in(60, 2), lambda: delayed_jobs(raw, queue_name))
    assert len(await delayed_jobs(raw, queue_name)) == 1


async def test_a_cancel_does_not_say_that_it_failed(shaky: Shaky, raw: Redis, queue_name: str) -> None:
    await shaky.producer.add_in_with_id("mine", 60, 2)

    async def cancelled() -> bool:
        return not await delayed_jobs(raw, queue_name)

    with pytest.raises(RedisError, match="may or may not"):
        await shaky.lose_answer(shaky.producer.cancel_delayed("mine"), cancelled)
    assert not await shaky.producer.cancel_delayed("mine")


async def test_a_removal_does_not_say_that_there_was_nothing(shaky: Shaky, raw: Redis, queue_name: str) -> None:
    keys = QueueKeys(queue_name)
    await shaky.producer.upsert_repeatable(SPEC)

    async def removed() -> bool:
        return not await raw.exists(keys.repeat)

    with pytest.raises(RedisError, match="may or may not"):
        await shaky.lose_answer(shaky.producer.remove_repeatable("k"), removed)
    assert not await shaky.producer.remove_repeatable("k")
