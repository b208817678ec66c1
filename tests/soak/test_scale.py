"""Very many of everything: what a job costs does not grow with how many there are."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from redis.asyncio import Redis

from chasqui_engine import Consumer, ConsumerConfig, Job, Queue, RepeatPattern, SchedulerConfig
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime.clock import monotonic
from tests.servers import ServerProcess
from tests.support import measure
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

SCALE = float(os.environ.get("CHASQUI_SOAK_SCALE", "1"))
PATIENCE_S = 1500.0


class Row(NamedTuple):
    """One line of the table."""

    what: str
    count: int
    seconds: float
    cpu_s: float
    """Of this process and the server: what others do on the machine is not in it."""
    rss_mib: float

    @property
    def each_s(self) -> float:
        return self.cpu_s / self.count

    def __str__(self) -> str:
        cost = f"{self.seconds:.1f} s | {self.each_s * 1e6:.0f} µs"
        return f"| {self.what} | {self.count:,} | {cost} | {self.rss_mib:.0f} MiB |"


class Watch:
    """Time and processor time since it was made."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._began = monotonic()
        self._cpu_s = self._spent()

    def _spent(self) -> float:
        return measure.cpu_s() + measure.cpu_s(self._server.pid)

    def row(self, what: str, count: int) -> Row:
        return Row(what, count, monotonic() - self._began, self._spent() - self._cpu_s, measure.rss_mib())


HEADER = "| what | count | time | processor time each | memory of this process |\n| --- | ---: | ---: | ---: | ---: |"


@pytest.fixture
def server(server_kind: str) -> Iterator[ServerProcess]:
    if server_kind == "given":
        pytest.skip("fills its server, so it needs one of its own")
    print(f"\n{server_kind}")
    with ServerProcess(server_kind) as server:
        yield server


def sizes(most: int) -> list[int]:
    """A tenth, and all of it."""
    return [max(10, int(most * SCALE / 10)), max(100, int(most * SCALE))]


class Runs:
    """A handler that counts."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, job: Job) -> None:
        del job
        self.count += 1


async def consume(server: ServerProcess, queue: str, count: int, what: str, **settings: Any) -> Row:
    """Runs `count` jobs of a queue."""
    runs, stop = Runs(), asyncio.Event()
    config = ConsumerConfig(queue_name=queue, block_ms=100, delayed_poll_interval_ms=10, **settings)
    watch = Watch(server)
    running = asyncio.create_task(Consumer(server.url, config).run(runs, stop))
    await until(lambda: runs.count >= count or running.done(), timeout_s=PATIENCE_S)
    row = watch.row(what, count)
    stop.set()
    await running
    return row


def flat(small: Row, large: Row) -> None:
    """Ten times as many cost about ten times as much, and not more memory."""
    print(small)
    print(large)
    assert large.each_s < 2 * small.each_s + 20e-6
    assert large.rss_mib < small.rss_mib + 150


async def add_many(server: ServerProcess, queue: str, count: int, what: str, **options: Any) -> Row:
    """Adds `count` jobs."""
    watch = Watch(server)
    async with Queue(queue, redis_url=server.url, max_stream_len=10**8) as producer:
        for start in range(0, count, 5000):
            items = [{"name": "n", "data": n, **options} for n in range(start, min(start + 5000, count))]
            await producer.add_bulk(items)
    return watch.row(what, count)


@pytest.mark.soak
@pytest.mark.timeout(PATIENCE_S)
async def test_waiting_jobs(server: ServerProcess) -> None:
    print(f"\n{measure.machine()}\n{HEADER}")
    added, ran = [], []
    for count in sizes(1_000_000):
        queue = f"waiting-{count}"
        added.append(await add_many(server, queue, count, "jobs added in bulk"))
        ran.append(await consume(server, queue, count, "waiting jobs run"))
    flat(*added)
    flat(*ran)


@pytest.mark.soak
@pytest.mark.timeout(PATIENCE_S)
async def test_delayed_jobs(server: ServerProcess) -> None:
    added, ran = [], []
    for count in sizes(100_000):
        queue = f"delayed-{count}"
        added.append(await add_many(server, queue, count, "delayed jobs added", delay_ms=3_600_000))
        async with Redis.from_url(server.url) as raw:  # an hour passes
            await raw.eval(
                "for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, m) end",
                1,
                QueueKeys(queue).delayed,
            )
        ran.append(await consume(server, queue, count, "delayed jobs promoted and run"))
    flat(*added)
    flat(*ran)


@pytest.mark.soak
@pytest.mark.timeout(PATIENCE_S)
async def test_repeatables(server: ServerProcess) -> None:
    added, ran = [], []
    for count in sizes(10_000):
        queue = f"repeat-{count}"
        watch = Watch(server)
        async with Queue(queue, redis_url=server.url) as producer:
            for n in range(count):
                await producer.upsert_repeatable_job(f"n{n}", n, repeat=RepeatPattern.every(3_600_000))
        added.append(watch.row("repeatables stored", count))
        async with Redis.from_url(server.url) as raw:  # an hour passes
            keys = QueueKeys(queue)
            now = int((await raw.time())[0]) * 1000
            await raw.zadd(keys.repeat, dict.fromkeys(await raw.zrange(keys.repeat, 0, -1), now - 1000))
        scheduler = SchedulerConfig(tick_interval_ms=50)
        ran.append(await consume(server, queue, count, "repeatables fired and run", scheduler=scheduler))
    flat(*added)
    flat(*ran)


@pytest.mark.soak
@pytest.mark.timeout(PATIENCE_S)
async def test_queues_in_one_process(server: ServerProcess) -> None:
    rows = []
    for count in sizes(1000):
        before, watch = measure.rss_mib(), Watch(server)
        queues = [Queue(f"queue-{count}-{n}", redis_url=server.url) for n in range(count)]
        for start in range(0, count, 50):
            await asyncio.gather(*(queue.add("n", 1) for queue in queues[start : start + 50]))
        rows.append(watch.row("queues opened and added to, in one process", count))
        print(f"{count} queues: {(measure.rss_mib() - before) / count * 1024:.0f} KiB each")
        await asyncio.gather(*(queue.close() for queue in queues))
    flat(*rows)
