"""`chasqui worker` as a process: what it runs, how it stops, several at once, anew for changed code."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import SyncQueue
from tests.servers import VALKEY, ServerProcess
from tests.support.measure import cpu_s
from tests.support.processes import COMMAND, TASKS, Process, children_of, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


def started(url: str, folder: Path, queue: SyncQueue, target: str, *options: str) -> Process:
    process = Process(url, folder, "worker", target, "-q", queue.name, "--store-results", "--json", *options)
    try:
        assert process.next_json()["event"] == "started"
    except BaseException:
        process.__exit__()
        raise
    return process


def is_begun(client: redis.Redis, queue: SyncQueue, job_id: str) -> bool:
    told = client.xrevrange(f"{{chasqui:{queue.name}}}:events", count=100)
    return any(fields[b"e"] == b"active" and fields[b"id"] == job_id.encode() for _, fields in told)


def test_it_runs_jobs_and_stops_cleanly(valkey_url: str, folder: Path, queue: SyncQueue, client: redis.Redis) -> None:
    with started(valkey_url, folder, queue, "tasks:handle") as worker:
        assert queue.wait_for_result(queue.add("n", 5), timeout=20) == {"done": 5}
        slow = queue.add("n", {"sleep": 0.7})
        # What a worker has and has not begun yet is handed back.
        wait_for(lambda: is_begun(client, queue, slow.id), "the job to start")
        worker.interrupt()
        told = worker.next_json()
        assert (told["event"], told["done"], told["failed"]) == ("stopped", 2, 0)
        assert worker.wait() == 0
        assert queue.wait_for_result(slow, timeout=5) == {"done": {"sleep": 0.7}}
    assert queue.counts().active == 0


def test_the_second_interrupt_stops_at_once(
    valkey_url: str, folder: Path, queue: SyncQueue, client: redis.Redis
) -> None:
    with started(valkey_url, folder, queue, "tasks:handle") as worker:
        job = queue.add("n", {"sleep": 60})
        # One that has not begun would be handed back, and the worker would end at the first.
        wait_for(lambda: is_begun(client, queue, job.id), "the job to start")
        began = time.monotonic()
        worker.interrupt()
        time.sleep(0.3)
        worker.interrupt()
        assert worker.wait() == 130
        assert time.monotonic() - began < 10
    assert queue.get_job(job.id).state == "active"  # until another worker finds it abandoned


def test_handlers_by_name(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with started(valkey_url, folder, queue, "tasks", "--max-attempts", "1"):
        jobs = [queue.add("double", 4), queue.add("shout", "a"), queue.add("yell", "b")]
        assert [queue.wait_for_result(job, timeout=20) for job in jobs] == [8, "A", "B"]
        lost = queue.add("unknown", 1)
        wait_for(lambda: queue.get_job(lost.id).state == "dead", "the burial")
        assert "no handler for jobs named 'unknown'; there are double, shout, yell" in str(
            queue.get_job(lost.id).last_error
        )


def test_plain_handlers_in_processes(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with started(valkey_url, folder, queue, "tasks:plain", "--plain-in", "process"):
        assert queue.wait_for_result(queue.add("n", 1), timeout=20) == "plain"


def test_several_processes(valkey_url: str, folder: Path, queue: SyncQueue, client: redis.Redis) -> None:
    with started(valkey_url, folder, queue, "tasks:handle", "--processes", "2") as group:
        children = wait_for(lambda: len(found := children_of(group.pid)) == 2 and found, "two processes")
        assert queue.wait_for_result(queue.add("n", 1), timeout=20) == {"done": 1}
        # Both have taken a job, so both are ready: what dies before is not started again.
        jobs = queue.add_bulk([{"name": "n", "data": {"sleep": 0.5, "n": n}} for n in range(200)])
        wait_for(lambda: _workers(client, queue) == 2, "both to be at work")
        time.sleep(1)
        os.kill(children[0], signal.SIGKILL)
        wait_for(lambda: len(set(children_of(group.pid)) - set(children)) == 1, "another in its place")
        group.interrupt()
        assert group.next_json()["event"] == "stopped"
        assert group.wait() == 0
        assert len(jobs) == 200
    for child in children:
        assert not _alive(child)


def _workers(client: redis.Redis, queue: SyncQueue) -> int:
    return len(client.xinfo_consumers(f"{{chasqui:{queue.name}}}:stream", "default"))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_children_do_not_outlive_their_parent(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with started(valkey_url, folder, queue, "tasks:handle", "--processes", "2") as group:
        children = wait_for(lambda: len(found := children_of(group.pid)) == 2 and found, "two processes")
        queue.wait_for_result(queue.add("n", 1), timeout=20)
        group.kill()
        group.wait()
        wait_for(lambda: not any(map(_alive, children)), "the children to end")


def test_what_cannot_start_is_said_once(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with Process(valkey_url, folder, "worker", "tasks:nobody", "-q", queue.name, "--processes", "3") as group:
        assert group.wait() == 2
        assert any("has no 'nobody'" in line for line in group.errors)


@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_server_that_is_not_there_ends_it(folder: Path, processes: str) -> None:
    words = ("worker", "tasks:handle", "-q", "q", "--processes", processes, "--json")
    with Process("redis://127.0.0.1:1", folder, *words) as group:
        assert group.wait() == 4
        [line] = group.errors[-1:]
        assert json.loads(line)["error"]["code"] == "CMQ-001"
        assert sum("error" in line for line in group.errors) == 1


def test_a_worker_that_was_ready_once_is_started_again(folder: Path) -> None:
    with (
        ServerProcess(VALKEY) as server,
        SyncQueue("q", redis_url=server.url) as queue,
        started(server.url, folder, queue, "tasks:handle", "--processes", "2") as group,
    ):
        queue.wait_for_result(queue.add("n", 1), timeout=20)
        children = children_of(group.pid)
        server.stop()
        os.kill(children[0], signal.SIGKILL)
        wait_for(lambda: sum("restarting it in" in line for line in group.errors) >= 2, "a second try")
        assert _alive(group.pid)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_idle_worker_does_not_wait_for_a_server_that_is_gone(folder: Path, processes: str) -> None:
    with (
        ServerProcess(VALKEY) as server,
        SyncQueue("q", redis_url=server.url) as queue,
        started(server.url, folder, queue, "tasks:handle", "--processes", processes) as worker,
    ):
        queue.wait_for_result(queue.add("n", 1), timeout=20)
        server.stop()
        time.sleep(1)
        began = time.monotonic()
        worker.interrupt()
        assert worker.wait() == 0
        assert time.monotonic() - began < 8


def test_changed_code_is_taken_up(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with started(valkey_url, folder, queue, "tasks:plain", "--reload") as worker:
        assert queue.wait_for_result(queue.add("n", 1), timeout=20) == "plain"
        (folder / "tasks.py").write_text("def plain(job) -> broken")
        wait_for(lambda: any("waiting for a code change" in line for line in worker.errors), "the bad news")
        (folder / "tasks.py").write_text("def plain(job):\n    return 'changed'\n")
        assert queue.wait_for_result(queue.add("n", 1), timeout=20) == "changed"
        worker.interrupt()
        assert worker.wait() == 0
    assert any("tasks.py changed" in line for line in worker.errors)


def test_metrics(valkey_url: str, folder: Path, queue: SyncQueue) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with started(valkey_url, folder, queue, "tasks:handle", "--metrics-port", str(port)):
        queue.wait_for_result(queue.add("mail", 1), timeout=20)

        def scraped() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
                text = page.read().decode()
            return f'chasquimq_jobs_completed_total{{name="mail",queue="{queue.name}"}} 1.0' in text

        wait_for(scraped, "the metric")


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nomodule:handle", "there is no module 'nomodule'"),
        ("tasks:nobody", "has no 'nobody'"),
        ("broken:handle", "SyntaxError"),
        ("needy:handle", "needs 'not_installed_at_all'"),
        ("empty", "no handler is registered"),
        (":handle", "names no module"),
    ],
)
def test_a_handler_that_is_not_there(valkey_url: str, folder: Path, target: str, told: str) -> None:
    (folder / "broken.py").write_text("def handle(job:\n")
    (folder / "needy.py").write_text("import not_installed_at_all\n")
    (folder / "empty.py").write_text("")
    done = subprocess.run(
        [*COMMAND, "worker", target],
        check=False,
        cwd=folder,
        env=environment(valkey_url),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode in (1, 2)
    [line] = done.stderr.splitlines()
    assert told in line
    assert "Traceback" not in done.stderr


def test_a_worker_starts_without_what_it_does_not_need(valkey_url: str, folder: Path) -> None:
    """Rich alone would take a tenth of a second, pydantic half a second."""
    code = (
        "import sys, chasqui_engine.cli.app as app, chasqui_engine.cli.worker.run, typer.main;"
        "typer.main.get_command(app.build('worker'));"
        "dear = ('rich', 'pydantic', 'pyarrow', 'chasqui_engine.cli.commands.bulk');"
        "print([name for name in dear if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(valkey_url),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_worker_starts_in_less_than_half_a_second(
    valkey_url: str, folder: Path, queue: SyncQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of processor time, since other tests run beside it; and from bytecode, as pip installs it."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(folder / "bytecode"))

    def start() -> float:
        with started(valkey_url, folder, queue, "tasks:handle") as worker:
            return cpu_s(worker.pid)

    compiling = start()
    # A machine that others use can be slow for a while, but not ten times in a row.
    assert any(start() < 0.5 for _ in range(10)), f"{compiling} s the first time, and no start after it was quick"


def test_a_group_alone_shows_its_help(valkey_url: str) -> None:
    done = subprocess.run(
        [*COMMAND, "dlq"], check=False, env=environment(valkey_url), capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert "replay" in done.stdout + done.stderr
    assert "error:" not in done.stderr


def test_the_shell_completes_commands(valkey_url: str) -> None:
    variables = {"_CHASQUI_COMPLETE": "complete_bash", "COMP_WORDS": "chasqui re", "COMP_CWORD": "1"}
    done = subprocess.run(
        COMMAND,
        check=False,
        env={**environment(valkey_url), **variables},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert set(done.stdout.split()) == {"result", "repeatable", "resume"}


def test_help_says_everything(valkey_url: str, client: redis.Redis) -> None:
    env: dict[str, Any] = {**environment(valkey_url), "NO_COLOR": "1"}
    done = subprocess.run([*COMMAND, "--help"], env=env, capture_output=True, text=True, timeout=30, check=True)
    for word in ("worker", "add", "bulk", "inspect", "watch", "events", "dlq", "delayed", "repeatable", "doctor"):
        assert word in done.stdout
    for word in ("export CHASQUI_REDIS_URL=embedded:///", "second terminal", "--conn-id", "--json", "--debug"):
        assert word in done.stdout
    assert "\x1b[3" not in done.stdout
