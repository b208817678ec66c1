"""What a queue has in the server, and workers and services that run beside a test."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import decode_delayed, decode_job
from tests.support.waiting import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from redis.asyncio import Redis

    from chasqui_engine import Job, Worker


async def events_of(raw: Redis, queue: str) -> list[dict[str, str]]:
    """The queue's events, oldest first, as the text they are; without times, which no test can know."""
    entries = await raw.xrange(QueueKeys(queue).events)
    texts = [{key.decode(): value.decode() for key, value in fields.items()} for _, fields in entries]
    return [{key: value for key, value in fields.items() if key not in ("ts", "enqueued_at_ms")} for fields in texts]


async def dead_letters_of(raw: Redis, queue: str) -> list[dict[str, bytes]]:
    """The queue's dead letters, oldest first."""
    entries = await raw.xrange(QueueKeys(queue).dlq)
    return [{key.decode(): value for key, value in fields.items()} for _, fields in entries]


async def stream_is_empty(raw: Redis, queue: str) -> bool:
    """Whether nothing waits and nothing runs."""
    return await raw.xlen(QueueKeys(queue).stream) == 0


async def keys_of(raw: Redis, queue: str) -> set[str]:
    """Every key that the queue has in the server."""
    return {key.decode() async for key in raw.scan_iter(match=f"{QueueKeys(queue).prefix}*", count=1000)}


async def waiting_jobs(raw: Redis, queue: str) -> list[Job]:
    """The jobs on the stream, oldest first."""
    entries = await raw.xrange(QueueKeys(queue).stream)
    return [decode_job(fields[b"d"], fields.get(b"n", b"").decode()) for _, fields in entries]


async def delayed_jobs(raw: Redis, queue: str) -> list[tuple[Job, int]]:
    """The delayed jobs and when they run (epoch ms), the next first."""
    members = await raw.zrange(QueueKeys(queue).delayed, 0, -1, withscores=True)
    apart = [(decode_delayed(member), int(score)) for member, score in members]
    return [(decode_job(envelope, name), score) for (name, envelope), score in apart]


async def server_ms(raw: Redis) -> int:
    """The server's clock."""
    seconds, micros = await raw.time()
    return int(seconds * 1000 + micros // 1000)


@asynccontextmanager
async def running(run: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> AsyncIterator[asyncio.Event]:
    """Runs a promoter, a scheduler or the like beside the test; gives its shutdown signal, which is set at the end."""
    shutdown = asyncio.Event()
    service = asyncio.create_task(run(shutdown))
    try:
        yield shutdown
    finally:
        shutdown.set()
        async with asyncio.timeout(PATIENCE_S):
            await service


@asynccontextmanager
async def working(worker: Worker) -> AsyncIterator[Worker]:
    """Runs a worker beside the test."""
    service = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.close()
        async with asyncio.timeout(PATIENCE_S):
            await service
