"""`chasqui worker --burst`, `--max-jobs` and `--max-rss`: how it ends, and what it says of it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import COMMAND, TASKS, Process, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from chasqui_engine import SyncQueue

HANDLERS = (
    TASKS
    + """
from chasqui_engine import UnrecoverableError

async def dies(job):
    raise UnrecoverableError("no")

async def fails(job):
    raise ValueError("no")
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(HANDLERS)
    return tmp_path


def run_worker(url: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "worker", *words],
        cwd=folder,
        env=environment(url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def last_json(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_burst_empties_the_queue_and_says_what_it_did(
    valkey_url: str, folder: Path, queue: SyncQueue, processes: str
) -> None:
    queue.add_bulk([{"name": "n", "data": number} for number in range(20)])
    done = run_worker(
        valkey_url, folder, "tasks:handle", "-q", queue.name, "--burst", "--json", "--processes", processes
    )
    assert done.returncode == 0, done.stderr
    said = last_json(done)
    assert (said["event"], said["done"], said["failed"], said["dead"]) == ("stopped", 20, 0, 0)
    assert queue.counts().waiting == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_burst_in_which_a_job_died_ends_with_1(
    valkey_url: str, folder: Path, queue: SyncQueue, processes: str
) -> None:
    queue.add("n", 1)
    done = run_worker(valkey_url, folder, "tasks:dies", "-q", queue.name, "--burst", "--json", "--processes", processes)
    assert done.returncode == 1
    assert last_json(done)["dead"] == 1


def test_a_burst_says_that_retries_are_left(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    queue.add("n", 1, backoff=60_000)
    done = run_worker(valkey_url, folder, "tasks:fails", "-q", queue.name, "--burst")
    assert done.returncode == 0
    assert "0 done, 1 failed, 0 dead; 1 retried, and what of them is not due yet is left" in done.stderr
    assert queue.counts().delayed == 1


def test_max_jobs_ends_a_worker_and_a_group_starts_the_next(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    queue.add_bulk([{"name": "n", "data": number} for number in range(10)])
    alone = run_worker(valkey_url, folder, "tasks:handle", "-q", queue.name, "--max-jobs", "3", "--json")
    assert (alone.returncode, last_json(alone)["done"]) == (0, 3)
    assert queue.counts().waiting == 7
    words = ("worker", "tasks:handle", "-q", queue.name, "--max-jobs", "2", "--processes", "2", "--json")
    with Process(valkey_url, folder, *words) as group:
        assert group.next_json()["event"] == "started"
        # In one look: between two, a worker that ends may release what it has not begun.
        wait_for(lambda: (counts := queue.counts()).waiting + counts.active == 0, "all jobs")
        group.interrupt()
        assert group.next_json()["done"] == 7
        assert group.wait() == 0
    assert any("stopped by itself; starting another" in line for line in group.errors)


def test_a_memory_limit_below_what_it_takes_already_is_an_error(
    valkey_url: str, folder: Path, queue: SyncQueue
) -> None:
    done = run_worker(valkey_url, folder, "tasks:handle", "-q", queue.name, "--max-rss", "1")
    assert done.returncode == 2
    assert "max_rss_mb is 1, but the process takes" in done.stderr


def test_burst_with_reload_is_refused(valkey_url: str, folder: Path) -> None:
    done = run_worker(valkey_url, folder, "tasks:handle", "--burst", "--reload")
    assert done.returncode == 2
    assert "--burst ends, and --reload never does" in done.stderr
