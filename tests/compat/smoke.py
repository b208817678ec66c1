"""The engine at work on whatever versions this interpreter has: ends with exit code 0, or with what went wrong.

Run by `tests/compat/run`. Needs nothing but the package, the embedded server, and Debian's Redis and trustme for TLS.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from redis.asyncio import Redis

from chasqui_engine import (
    Job,
    JobFailedError,
    Queue,
    QueueEvents,
    RedisError,
    RepeatPattern,
    UnrecoverableError,
    Worker,
)
from tests.servers import REDIS_7, ServerProcess, Unavailable, find, make_tls_files

if TYPE_CHECKING:
    from collections.abc import Awaitable

Kind = TypeVar("Kind", bound=Exception)


async def handle(job: Job) -> Any:
    if job.name == "bury":
        raise UnrecoverableError("no")
    if job.name == "retry" and job.attempt < 1:
        raise ValueError("not yet")
    return {"got": job.data}


async def check_all(url: str, **options: Any) -> None:
    """Every way of a job through a queue."""
    worker = Worker("compat", handle, redis_url=url, store_results=True, scheduler_tick_ms=50, **options)
    running = asyncio.create_task(worker.run())
    async with Queue("compat", redis_url=url, **options) as queue:
        jobs = [await queue.add("now", 1, job_id="mine"), await queue.add("later", 2, delay_ms=50)]
        jobs += [await queue.add("retry", 3, backoff=10), *await queue.add_bulk([{"name": "bulk", "data": 4}])]
        results = await asyncio.gather(*(job.wait_for_result(timeout=10) for job in jobs))
        assert results == [{"got": n} for n in (1, 2, 3, 4)], results
        dead = await queue.add("bury", 5)
        assert (await error_of(dead.wait_for_result(timeout=10), JobFailedError)).reason == "unrecoverable"
        assert len(await queue.peek_dlq()) == 1
        delayed = await queue.add("never", 6, delay_ms=60_000)
        assert await queue.cancel_delayed(delayed.id)
        await queue.upsert_repeatable_job("tick", 7, repeat=RepeatPattern.every(50))
        await check_events(url, **options)
        await check_reconnect(url, queue)
    await worker.close()
    await running


async def check_events(url: str, **options: Any) -> None:
    async with QueueEvents("compat", redis_url=url, last_event_id="0", **options) as events, asyncio.timeout(10):
        wanted = {("completed", "now"), ("completed", "later"), ("completed", "tick"), ("dlq", "bury")}
        async for event in events:
            wanted.discard((event.name, event.job_name or ""))
            if not wanted:
                break


async def check_reconnect(url: str, queue: Queue) -> None:
    if not url.startswith("redis://"):
        return
    async with Redis.from_url(url) as admin:
        await admin.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    job = await queue.add("now", 8, job_id="after the break")
    assert await job.wait_for_result(timeout=10) == {"got": 8}


async def check_login() -> None:
    async def fetch(address: str | None) -> tuple[str | None, str | None]:
        assert address == f"127.0.0.1:{server.port}", address
        return "default", "secret"

    with ServerProcess(extra_args=("--requirepass", "secret")) as server:
        await check_all(server.url.replace("redis://", "redis://:secret@") + "?db=3")
        await check_refused(server.url)
        async with Queue("compat", redis_url=server.url, credential_provider=fetch) as queue:
            assert (await queue.add("now", 1)).id


async def check_refused(url: str) -> None:
    async with Queue("compat", redis_url=url) as queue:
        assert (await error_of(queue.add("now", 1), RedisError)).code == "CMQ-314"


async def error_of(work: Awaitable[Any], kind: type[Kind]) -> Kind:
    """The error that it ends with."""
    try:
        await work
    except kind as err:
        return err
    raise AssertionError(f"no {kind.__name__} came")


async def check_tls(folder: Path) -> str:
    try:
        find(REDIS_7)
    except Unavailable as reason:
        return f"not tried: {reason}"
    with ServerProcess(REDIS_7, tls=make_tls_files(folder)) as server:
        await check_all(server.url)
        await check_refused(server.url.partition("?")[0])
    return "ok"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        await check_all("embedded://")
        with ServerProcess() as server:
            await check_all(server.url)
        await check_login()
        tls = await check_tls(Path(folder))
    about = f"Python {platform.python_version()}, redis {version('redis')}, hiredis {version('hiredis')}"
    print(f"{about}: ok; TLS: {tls}")


if __name__ == "__main__":
    warnings.simplefilter("error")
    asyncio.run(main())
    sys.exit(0)
