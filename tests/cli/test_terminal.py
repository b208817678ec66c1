"""What a person at a terminal sees and presses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import msgpack
import pytest
from redis import Redis

from tests.servers import VALKEY, ServerProcess
from tests.support.processes import COMMAND, TASKS, Terminal, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from chasqui_engine import SyncQueue


@pytest.fixture(autouse=True)
def tmux() -> None:
    """Where there is none, these tests say so; in CI they fail."""
    if shutil.which("tmux"):
        return
    words = "the command is NOT TESTED in a terminal: tmux is not on this machine"
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(words)
    pytest.skip(words)


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
        terminal.shows("stopping: running jobs may finish")
        began = time.monotonic()
        terminal.press("C-c")
        assert terminal.exit_code() == 130
        assert time.monotonic() - began < 10
    assert queue.get_job(slow.id).state == "active"


def test_one_ctrl_c_and_a_clean_end(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with Terminal(valkey_url, folder, "worker", "tasks:handle", "-q", queue.name, "-p", "2") as terminal:
        terminal.shows("2 of 2 workers · 0 waiting · 0 active · 0 delayed")
        job = queue.add("n", {"sleep": 1, "say": "the handler runs"})
        # "1 active" would not do: a job that was delivered and has not begun is released.
        terminal.shows("the handler runs")
        terminal.press("C-c")
        assert terminal.exit_code() == 0
        assert "stopped: 1 done, 0 failed, 0 dead" in terminal.screen
    assert queue.get_job(job.id).state == "completed"


def test_watching(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    with Terminal(valkey_url, folder, "watch", queue.name, "--interval-ms", "100") as terminal:
        terminal.shows("depth over")
        terminal.shows("███")
        queue.add_bulk([{"name": "n", "data": n} for n in range(60)])
        terminal.shows(" 63 ")
        terminal.shows("▁█")
        terminal.press("C-c")
        assert terminal.exit_code() in (0, 130)
        assert "depth over" in terminal.screen


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
        terminal.shows("existed already", 50)
        assert terminal.exit_code() == 0
    assert queue.counts().waiting == total


def test_it_asks_before_it_destroys(valkey_url: str, folder: Path, queue: SyncQueue, client: redis.Redis) -> None:
    key = f"{{chasqui:{queue.name}}}:dlq"
    client.xadd(key, {"d": b"\xc1", "source_id": "1-1", "reason": "decode_failed"})
    for answer, left, code in (("n", 1, 1), ("y", 0, 0)):
        with Terminal(valkey_url, folder, "dlq", "delete", queue.name, "--all") as terminal:
            terminal.shows("Delete 1 dead letter of")
            terminal.press(answer, "Enter")
            assert terminal.exit_code() == code
        assert client.xlen(key) == left


@pytest.mark.parametrize("command", ["delete", "replay"])
def test_ctrl_c_at_the_question_changes_nothing(
    valkey_url: str, folder: Path, queue: SyncQueue, client: redis.Redis, command: str
) -> None:
    key = f"{{chasqui:{queue.name}}}:dlq"
    envelope = msgpack.packb(["a", msgpack.packb(1), 1_700_000_000_000, 0])
    client.xadd(key, {"d": envelope, "n": "mail", "source_id": "1-1", "reason": "unrecoverable"})
    with Terminal(valkey_url, folder, "dlq", command, queue.name, "--job-id", "a") as terminal:
        terminal.shows("[y/N]:")
        terminal.press("C-c")
        assert terminal.exit_code() == 130
    assert client.xlen(key) == 1
    assert queue.counts().waiting == 0


@pytest.mark.parametrize("words", [("add", "x", "-"), ("bulk", "-")])
def test_ctrl_c_while_something_is_to_be_typed(
    valkey_url: str, folder: Path, queue: SyncQueue, words: tuple[str, ...]
) -> None:
    with Terminal(valkey_url, folder, *words, "-q", queue.name) as terminal:
        terminal.press("1", "Enter")
        if words[0] == "bulk":
            wait_for(lambda: queue.counts().waiting == 1, "the first row")
        else:
            # The letter shows at once, whether or not the command reads already.
            time.sleep(2)
        terminal.press("C-c")
        assert terminal.exit_code() == 130
        assert "Traceback" not in terminal.screen


def test_a_narrow_terminal_shows_the_names(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    other = f"{queue.name[:6]}-second"
    subprocess.run([*COMMAND, "add", "n", "-q", other], env=environment(valkey_url), check=True, timeout=30)
    for words in (("inspect", queue.name, other), ("watch", other, "--count", "1")):
        with Terminal(valkey_url, folder, *words, columns=80) as terminal:
            terminal.shows(other)
            assert terminal.exit_code() == 0
            screen = terminal.screen
        for column in ("waiting", "active", "delayed", "dead", "done/s"):
            assert column in screen
        assert "not shown: " in screen
        assert all(len(line) <= 80 for line in screen.splitlines())


def test_more_queues_than_lines(folder: Path) -> None:
    with ServerProcess(VALKEY) as server:
        with Redis.from_url(server.url) as client:
            for n in range(40):
                for _ in range(100 if n == 33 else 1):
                    client.xadd(f"{{chasqui:queue-{n:02}}}:stream", {"d": b"x"})
        with Terminal(server.url, folder, "watch", "--count", "2", columns=80, lines=24) as terminal:
            assert terminal.exit_code() == 0
            screen = terminal.screen
    assert "queue-33" in screen
    assert "busiest of 40 queues" in screen


def test_what_is_printed_stands_above_the_line(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    (folder / "loud.py").write_text(
        "import sys\n"
        "async def handle(job):\n"
        "    print('printed', job.data)\n"
        "    print('complained', job.data, file=sys.stderr, flush=True)\n"
    )
    for processes in ("1", "2"):
        with Terminal(valkey_url, folder, "worker", "loud:handle", "-q", queue.name, "-p", processes) as terminal:
            terminal.shows("0 waiting")
            queue.add("n", processes)
            terminal.shows("1 done")
            screen = terminal.shows(f"printed {processes}")
            assert f"printed {processes}" in [line.strip() for line in screen.splitlines()]
            assert f"complained {processes}" in [line.strip() for line in screen.splitlines()]
            terminal.press("C-c")
            assert terminal.exit_code() == 0
