"""The connection breaks after the server did what it was asked, before it could say so: nothing is done twice,
and nobody is given an answer that is not true."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine import (
    AddOptions,
    Producer,
    ProducerConfig,
    QueueFullError,
    RedisError,
    RepeatableSpec,
    RepeatPattern,
)
from chasqui_engine._redis.commands import fences
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.connections.proxy import Proxy
from tests.support.queues import delayed_jobs, waiting_jobs
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

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


async def has_idmp(raw: Redis) -> bool:
    """Whether the server knows an add that is sent again."""
    facts = await raw.info("server")
    return "valkey_version" not in facts and facts["redis_version"] >= "8.6"


async def add_one(producer: Producer) -> list[str]:
    return [await producer.add("unasked")]


async def add_two(producer: Producer) -> list[str]:
    return await producer.add_bulk(["bulk", "bulk"])


async def add_mixed(producer: Producer) -> list[str]:
    return await producer.add_now([("own", AddOptions(id="mine")), ("bulk", AddOptions(name="n"))])


@pytest.mark.parametrize("add", [add_one, add_two, add_mixed])
@pytest.mark.parametrize("taken", [False, True])
async def test_an_add_without_an_id_is_sent_again_where_the_server_knows_it(
    redis_url: str, raw: Redis, queue_name: str, add: Any, taken: bool
) -> None:
    """It is there once, also when a worker has taken it off the stream in between, and when the stream is full by then.

    Elsewhere the caller is told that it is in doubt.
    """
    keys = QueueKeys(queue_name)
    config = ProducerConfig(queue_name=queue_name, max_stream_len=10**6 if add is add_one else 3)
    async with Proxy(redis_url) as proxy, await Producer.connect(proxy.url, config) as producer:
        await producer.add_bulk(["known"])

        async def done() -> bool:
            if await raw.xlen(keys.stream) < 2:
                return False
            return not taken or await raw.xtrim(keys.stream, maxlen=0) > 0

        calling = Shaky(producer, proxy).lose_answer(add(producer), done)
        if await has_idmp(raw):
            ids = await calling
            waiting = [job.id for job in await waiting_jobs(raw, queue_name)]
            assert waiting[1:] == ([] if taken else ids)
            assert producer.added == 1 + len(ids) - (add is add_mixed)
        else:
            with pytest.raises(RedisError, match="may or may not"):
                await calling


async def test_an_add_that_a_full_queue_refuses_leaves_nothing(redis_url: str, raw: Redis, queue_name: str) -> None:
    config = ProducerConfig(queue_name=queue_name, max_stream_len=2)
    async with await Producer.connect(redis_url, config) as producer:
        await producer.add("first")
        with pytest.raises(QueueFullError):
            await producer.add_bulk(["second", "third"])
        assert [job.payload for job in await waiting_jobs(raw, queue_name)] == ["first"]
        await producer.add_now([("first again", AddOptions(id="own")), ("own again", AddOptions(id="own"))])
        assert producer.added == 2


async def test_an_add_is_in_doubt_when_more_were_sent_since_than_a_server_remembers(
    redis86_url: str, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fences, "_HOLDS", 1)
    async with Proxy(redis86_url) as proxy, Redis.from_url(redis86_url) as raw:
        config = ProducerConfig(queue_name=queue_name)
        async with await Producer.connect(proxy.url, config) as producer:
            await producer.add("known")
            proxy.hold_replies()
            calling = [asyncio.create_task(producer.add(n)) for n in range(3)]
            await until(lambda: _has_length(raw, queue_name, 4))
            proxy.cut()
            ended = await asyncio.gather(*calling, return_exceptions=True)
        assert [isinstance(end, str) for end in ended] == [False, False, True]
        assert all("may or may not" in str(end) for end in ended[:2])
        assert await raw.xlen(QueueKeys(queue_name).stream) == 4


async def _has_length(raw: Redis, queue_name: str, length: int) -> bool:
    return bool(await raw.xlen(QueueKeys(queue_name).stream) == length)


async def test_an_add_is_in_doubt_when_the_server_does_not_come_back(redis86_url: str, queue_name: str) -> None:
    async with Proxy(redis86_url) as proxy, Redis.from_url(redis86_url) as raw:
        config = ProducerConfig(queue_name=queue_name)
        async with await Producer.connect(
            f"{proxy.url}?socket_connect_timeout=0.2", config, connection_patience=0.3
        ) as producer:
            await producer.add("known")
            proxy.hold_replies()
            calling = asyncio.create_task(producer.add("lost"))
            await until(lambda: _has_length(raw, queue_name, 2))
            proxy.stall()
            proxy.cut()
            with pytest.raises(RedisError, match="may or may not"):
                await calling


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
