"""A server whose clock steps, for real (libfaketime): what runs keeps its worker, what waits is told about."""

from __future__ import annotations

import asyncio
import functools
import glob
import logging
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from chasqui_engine import Queue, Worker
from tests.servers import VALKEY, ServerProcess
from tests.support.queues import working
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chasqui_engine import Job

JOBS = 200
LEAST_MS = 1500


@functools.cache
def library() -> str | None:
    return next(iter(glob.glob("/usr/lib/*/faketime/libfaketime.so.1")), None)


class SteppingServer:
    """A server and the file that says by how many seconds its clock is off."""

    def __init__(self, kind: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._off_by = folder / "off-by"
        self.step(0)
        with patch.context() as environment:
            environment.setenv("LD_PRELOAD", library() or "")
            environment.setenv("FAKETIME_TIMESTAMP_FILE", str(self._off_by))
            environment.setenv("FAKETIME_NO_CACHE", "1")
            environment.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            self.process = ServerProcess(kind).start()

    def step(self, off_by_s: int) -> None:
        self._off_by.write_text(f"{off_by_s:+d}")


# With libfaketime, Redis does not start: it waits for itself in its allocator.
@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppingServer]:
    if library() is None:
        pytest.skip("needs libfaketime (Debian: faketime)")
    stepping = SteppingServer(VALKEY, tmp_path, monkeypatch)
    yield stepping
    stepping.process.close()


async def test_a_step_forward_runs_no_job_twice(server: SteppingServer, caplog: pytest.LogCaptureFixture) -> None:
    runs: Counter[int] = Counter()

    async def handler(job: Job) -> None:
        runs[job.payload] += 1
        await asyncio.sleep(0.9)

    async with Queue("steps", redis_url=server.process.url) as queue:
        await queue.add_bulk([{"name": "n", "data": n} for n in range(JOBS)])
        with caplog.at_level(logging.WARNING, "chasqui"):
            async with working(_worker(server, handler)), working(_worker(server, handler)):
                for begun, off_by_s in ((30, 10), (70, 3_700), (110, 7_300)):
                    await until(lambda begun=begun: len(runs) >= begun)
                    server.step(off_by_s)
                await until(lambda: len(runs) == JOBS)
                await until(lambda: _is_empty(queue))
    assert runs.total() == JOBS
    assert "the server's clock stepped forward by 36" in caplog.text


async def test_after_a_step_back_delayed_jobs_wait_and_the_worker_says_why(
    server: SteppingServer, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    async def handler(job: Job) -> None:
        ran.append(job.name)

    async with Queue("steps", redis_url=server.process.url) as queue, working(_worker(server, handler)):
        await queue.add("before", 1)
        await until(lambda: ran == ["before"])
        await asyncio.sleep(1)  # the worker has looked at the clock by then
        await queue.add("delayed", 1, delay_ms=500)
        server.step(-600)
        await until(lambda: "the server's clock stepped back by" in caplog.text)
        await queue.add("after", 1)
        await until(lambda: ran == ["before", "after"])
        server.step(0)
        await until(lambda: ran == ["before", "after", "delayed"])


def _worker(server: SteppingServer, handler: object) -> Worker:
    return Worker(
        "steps",
        handler,  # type: ignore[arg-type]
        redis_url=server.process.url,
        concurrency=20,
        claim_min_idle_ms=LEAST_MS,
        read_block_ms=200,
    )


async def _is_empty(queue: Queue) -> bool:
    counts = await queue.counts()
    return counts.waiting == 0 and counts.active == 0
