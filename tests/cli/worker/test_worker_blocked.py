"""SIGTERM to `chasqui worker` whose handlers block its event loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import Process
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from chasqui_engine import SyncQueue

BLOCKING = """
import time

async def handle(job):
    with open("begun", "a") as diary:
        diary.write(f"{job.data}\\n")
    time.sleep({seconds})
"""


def blocked(folder: Path, url: str, queue: SyncQueue, seconds: float, *options: str) -> Process:
    """A worker in the middle of its first job."""
    (folder / "blocking.py").write_text(BLOCKING.replace("{seconds}", str(seconds)))
    process = Process(url, folder, "worker", "blocking:handle", "-q", queue.name, "--json", *options)
    queue.add_bulk([{"name": "n", "data": n} for n in range(40)])
    wait_for(lambda: begun(folder), "the first job to start")
    return process


def begun(folder: Path) -> list[str]:
    diary = folder / "begun"
    return diary.read_text().split() if diary.exists() else []


def test_no_job_starts_after_the_signal(valkey_url: str, tmp_path: Path, queue: SyncQueue) -> None:
    with blocked(tmp_path, valkey_url, queue, 0.7, "--concurrency", "10") as worker:
        before = len(begun(tmp_path))
        worker.terminate()
        assert worker.wait() == 0
    assert len(begun(tmp_path)) == before
    counts = queue.counts()
    assert (counts.waiting, counts.active) == (40 - before, 0)


@pytest.mark.timeout(90)
def test_it_is_gone_soon_after_the_deadline_and_its_jobs_are_free(
    valkey_url: str, tmp_path: Path, queue: SyncQueue
) -> None:
    with blocked(tmp_path, valkey_url, queue, 60, "--deadline", "1s") as worker:
        signalled = time.monotonic()
        worker.terminate()
        assert worker.wait() == 1
        assert time.monotonic() - signalled < 1 + 5 + 3
    assert begun(tmp_path) == ["0"]
    counts = queue.counts()
    assert (counts.waiting, counts.active) == (40, 0), "handed back: nobody has to wait until it counts as silent"
