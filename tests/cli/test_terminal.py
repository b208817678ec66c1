"""What a person at a terminal sees and presses."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from tests.cli.processes import TASKS, Terminal, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from chasqui_engine import SyncQueue

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


def test_a_workers_line_and_two_ctrl_c(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with Terminal(valkey_url, folder, "worker", "tasks:handle", "-q", queue.name) as terminal:
        terminal.shows("Ctrl-C stops it")
        queue.add_bulk([{"name": "n", "data": n} for n in range(1234)])
        terminal.shows("1,234 done")
        assert "0 failed" in terminal.screen
        slow = queue.add("n", {"sleep": 60})
        terminal.shows("1 active")
        queue.pause()
        terminal.shows("PAUSED")
        queue.resume()
        terminal.press("C-c")
        terminal.shows("stopping: no more jobs are taken")
        began = time.monotonic()
        terminal.press("C-c")
        assert terminal.exit_code() == 130
        assert time.monotonic() - began < 10
    assert queue.get_job(slow.id).state == "active"


def test_one_ctrl_c_and_a_clean_end(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with Terminal(valkey_url, folder, "worker", "tasks:handle", "-q", queue.name, "-p", "2") as terminal:
        terminal.shows("2 of 2 workers")
        job = queue.add("n", {"sleep": 1})
        wait_for(lambda: queue.get_job(job.id).state == "active", "the job to start")
        terminal.press("C-c")
        assert terminal.exit_code() == 0
        assert "stopped: 1 done, 0 failed, 0 dead" in terminal.screen
    assert queue.get_job(job.id).state == "completed"


def test_watching(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    with Terminal(valkey_url, folder, "watch", queue.name, "--interval-ms", "100") as terminal:
        terminal.shows("depth over time")
        terminal.shows("███")
        queue.add_bulk([{"name": "n", "data": n} for n in range(60)])
        terminal.shows(" 63 ")
        terminal.shows("▁█")
        terminal.press("C-c")
        assert terminal.exit_code() in (0, 130)
        assert "depth over time" in terminal.screen


def test_a_bar_with_rate_and_time_left(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with (folder / "rows.jsonl").open("w") as rows:
        for n in range(20_000):
            rows.write(json.dumps({"n": n}) + "\n")
    with Terminal(valkey_url, folder, "bulk", "rows.jsonl", "-q", queue.name) as terminal:
        screen = terminal.shows("20,000 jobs added")
        assert terminal.exit_code() == 0
        for word in ("100%", "20,000 rows", "20,000 new", "/s", "left", "0:00:00"):
            assert word in screen
    assert queue.counts().waiting == 20_000


def test_a_break_and_a_second_run(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    total = 60_000
    with (folder / "rows.jsonl").open("w") as rows:
        for n in range(total):
            rows.write(json.dumps({"n": n}) + "\n")
    with Terminal(valkey_url, folder, "bulk", "rows.jsonl", "-q", queue.name) as terminal:
        wait_for(lambda: queue.counts().waiting > 1000, "some jobs")
        terminal.press("C-c")
        assert terminal.exit_code() == 130
        assert "run the same command again" in terminal.screen
    assert 0 < queue.counts().waiting < total
    with Terminal(valkey_url, folder, "bulk", "rows.jsonl", "-q", queue.name) as terminal:
        terminal.shows("were there already", 50)
        assert terminal.exit_code() == 0
    assert queue.counts().waiting == total


def test_it_asks_before_it_destroys(valkey_url: str, folder: Path, queue: SyncQueue, client: redis.Redis) -> None:
    key = f"{{chasqui:{queue.name}}}:dlq"
    client.xadd(key, {"d": b"\xc1", "source_id": "1-1", "reason": "decode_failed"})
    for answer, left, code in (("n", 1, 1), ("y", 0, 0)):
        with Terminal(valkey_url, folder, "dlq", "delete", queue.name, "--all") as terminal:
            terminal.shows("Delete 1 dead letters")
            terminal.press(answer, "Enter")
            assert terminal.exit_code() == code
        assert client.xlen(key) == left
