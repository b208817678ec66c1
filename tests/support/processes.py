"""The command in a process of its own, and in a terminal."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any, Self

from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
PATIENCE_S = 20.0
COMMAND = (sys.executable, "-m", "chasqui_engine.cli")

TASKS = """
import asyncio, time
from chasqui_engine.worker.handler_registry import handler

async def handle(job):
    if isinstance(job.data, dict) and "say" in job.data:
        print(job.data["say"], flush=True)
    await asyncio.sleep(job.data.get("sleep", 0) if isinstance(job.data, dict) else 0)
    return {"done": job.data}

def plain(job):
    return "plain"

@handler("double")
async def double(job):
    return job.data * 2

@handler("shout", "yell")
def shout(job):
    return job.data.upper()
"""


def environment(url: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "CHASQUI_REDIS_URL": url, "TERM": "xterm-256color"}


class Process:
    """A command that runs on; what it says comes line by line."""

    def __init__(self, url: str, folder: Path, *args: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, *args],
            cwd=folder,
            env=environment(url),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._read_out), threading.Thread(target=self._read_errors)]
        for thread in self._threads:
            thread.start()

    def _read_out(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self.errors.extend(self._process.stderr)

    @property
    def pid(self) -> int:
        return self._process.pid

    def next_json(self) -> Any:
        return json.loads(self._lines.get(timeout=PATIENCE_S))

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        code = self._process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


class Piped:
    """A command that reads from a pipe."""

    def __init__(self, url: str, *args: str) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, *args],
            env=environment(url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.out = self.err = ""

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    @property
    def is_asleep(self) -> bool:
        """Whether its main thread waits for something."""
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    def wait(self) -> int:
        """Its exit code; its stdin stays open until then."""
        code = self._process.wait(PATIENCE_S)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.out, self.err = self._process.stdout.read().decode(), self._process.stderr.read().decode()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


class Terminal:
    """A terminal with one command in it."""

    def __init__(self, url: str, folder: Path, *args: str, columns: int = 150, lines: int = 30) -> None:
        self._socket = f"chasqui-test-{uuid.uuid4()}"
        command = [
            "env",
            "-u",
            "COLUMNS",
            "-u",
            "LINES",
            f"PYTHONPATH={ROOT}",
            f"CHASQUI_REDIS_URL={url}",
            *COMMAND,
            *args,
        ]
        # The shell says how it ended, and outlives Ctrl-C; tmux itself does not always notice an end.
        shell = ["sh", "-c", 'trap : INT; "$@"; echo "exit code: $?."; exec sleep 120', "sh"]
        size = ("-x", str(columns), "-y", str(lines))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), *shell, *command)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *words], capture_output=True, text=True, timeout=20, check=True
        )
        return done.stdout

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def shows(self, text: str, timeout_s: float = PATIENCE_S) -> str:
        """The screen, as soon as it shows this."""
        try:
            wait_for(lambda: text in self.screen, text, timeout_s=timeout_s)
        except AssertionError as err:
            raise AssertionError(f"{err}; the screen is\n{self.screen}") from None
        return self.screen

    def exit_code(self) -> int:
        """Of the command, when it has ended."""
        found = wait_for(lambda: re.search(r"exit code: (\d+)\.", self.screen), "the end")
        return int(found[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._tmux("kill-server")
