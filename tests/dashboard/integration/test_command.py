"""`chasqui dashboard`."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from chasqui_engine import SyncQueue
from chasqui_engine.cli.app import run
from tests.support.dashboards import PATIENCE_S

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "chasqui_engine.cli", "dashboard")


@pytest.mark.timeout(180)
def test_from_the_link_to_the_audit_line(valkey_url: str, queue_name: str, tmp_path: Path) -> None:
    with SyncQueue(queue_name, redis_url=valkey_url) as queue:
        queue.add("n", 1)
    with (tmp_path / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [*COMMAND, "--url", valkey_url, "--port", "0", "--name", "ours"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        try:
            found = re.fullmatch(
                r"dashboard of ours: (http://127\.0\.0\.1:\d+/)\?token=(\S+)\n", process.stdout.readline()
            )
            assert found
            url, token = found.groups()
            with httpx.Client(base_url=url, timeout=2 * PATIENCE_S, follow_redirects=True) as client:
                assert client.get("").status_code == 401
                page = client.get("", params={"token": token})
                assert (page.status_code, str(page.url)) == (200, url)
                me = client.get("api/me").json()
                place = {"connection": "ours", "queue": queue_name}
                assert client.get("api/queue", params=place).json()["waiting"] == 1
                paused = client.post("api/queue/pause", params=place, headers={"x-chasqui-csrf": me["csrf"]})
                assert paused.json()["paused"] is True
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) in (0, 130)
        finally:
            process.kill()
            process.wait(PATIENCE_S)
            process.stdout.close()
    said = (tmp_path / "stderr").read_text()
    assert '"action": "pause"' in said
    assert "Traceback" not in said
    with SyncQueue(queue_name, redis_url=valkey_url) as queue:
        queue.resume()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--host", "0.0.0.0"], 2, "--host 0.0.0.0 can be reached from other machines"),
        (["--host", "example.org"], 2, "can be reached from other machines"),
        (["--payloads", "some"], 2, "payloads must be show, mask or hide, got 'some'"),
        (["--token", "short"], 2, "token must be 16 or more"),
        (["--group", "{x}"], 2, "group must not contain braces"),
        (["--url", "redis://127.0.0.1:1"], 4, "nothing listens at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_is_one_line(
    args: list[str], code: int, words: str, valkey_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = args if "--url" in args else [*args, "--url", valkey_url]
    assert run(["dashboard", "--port", "0", *given]) == code
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("error: [CMQ-")
    assert "Next: " in said
    assert said.count("\n") == 1


def test_a_port_that_is_taken(valkey_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["dashboard", "--port", port, "--url", valkey_url]) == 2
    assert f"cannot listen at 127.0.0.1:{port}" in capsys.readouterr().err
