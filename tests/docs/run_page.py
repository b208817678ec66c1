"""Runs the blocks of one page in order, as its reader would: `python -m tests.docs.run_page docs/quickstart.md`.

Python blocks share one namespace and one event loop, and may `await` at the top level; one that calls `asyncio.run` is
a program, and runs as one. `print(…)  # text` must print that text. Shell blocks run in the page's folder, which is the
current one; the `chasqui` command in this process, which saves its start, unless it goes on: a worker, a watch. That
runs until the page is at its end.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import inspect
import io
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from chasqui_engine.cli.app import run as run_chasqui
from chasqui_engine.cli.session import NOT_THERE
from tests.docs.commands import METRICS_PORTS, RUNS_ON, WAITS_FOR_OTHERS, words_of
from tests.servers import free_port
from tests.support.page_blocks import Block, blocks_of
from tests.support.waiting import until

_EXPECTED = re.compile(r"^\s*(?:\S+: )?print\(.*\)  # (?P<text>.*)$")
_TIMEOUT_S = 120
_HARD_END = "\nimport sys\nsys.stdout.flush()\nos._exit(0)\n"
"""The threads of ChasquiMQ's native part now and then abort an interpreter that goes down."""

_print = builtins.print


class Page:
    """One page while it is run."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._lines = page.read_text(encoding="utf-8").splitlines()
        self._names: dict[str, Any] = {"__name__": "docs", "print": self._checked_print}
        self._environment = dict(os.environ)
        self._free_ports = {port: str(free_port()) for port in METRICS_PORTS}
        self._printed: list[str] = []
        self._running: list[asyncio.subprocess.Process] = []

    async def run(self) -> None:
        try:
            for block in blocks_of(self._page):
                if block.mark == "printed by":
                    assert "".join(self._printed) == block.code, f"{block} is not what {block.says} printed"
                if block.mark in ("", "save"):
                    await self._run(block)
        finally:
            for process in reversed(self._running):
                await _end(process)

    async def _run(self, block: Block) -> None:
        if block.mark == "save":
            file = Path(block.says)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.code, encoding="utf-8")
            return
        self._printed = []
        if block.language == "python":
            await self._python(block)
        elif block.language == "sh":
            for command in words_of(block):
                await self._shell(command)

    async def _python(self, block: Block) -> None:
        if "asyncio.run(" in block.code:
            await self._program(block)
            return
        # The padding makes a traceback name the line of the page.
        source = "\n" * (block.line - 1) + block.code
        code = compile(source, str(self._page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        result = eval(code, self._names)
        if inspect.isawaitable(result):
            await asyncio.wait_for(result, _TIMEOUT_S)

    async def _program(self, block: Block) -> None:
        script = Path(f"line_{block.line}.py")
        script.write_text(block.code + (_HARD_END if self._page.stem == "chasquimq" else ""), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(script), stdout=asyncio.subprocess.PIPE, env=self._environment
        )
        out, _ = await asyncio.wait_for(process.communicate(), _TIMEOUT_S)
        assert process.returncode == 0, f"{block} ended with {process.returncode}"
        expected = [found["text"] for line in block.code.splitlines() if (found := _EXPECTED.match(line))]
        assert not expected or out.decode().splitlines() == expected, f"{block} printed {out.decode()!r}"

    async def _shell(self, command: str) -> None:
        if exported := re.fullmatch(r"export (\w+)=(.*)", command):
            self._environment[exported[1]] = os.path.expandvars(exported[2].strip("'\""))
            os.environ.update(self._environment)
            return
        for port, free in self._free_ports.items():
            command = command.replace(port, free)
        _print(f"$ {command}", flush=True)
        is_worker = command.startswith("chasqui worker ")  # which needs a process: it listens to signals
        if command.startswith("chasqui ") and "|" not in command and not RUNS_ON.match(command) and not is_worker:
            await self._chasqui(command)
            return
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            f"set -o pipefail; {command}" if "|" in command else f"exec {command}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        if RUNS_ON.match(command):
            self._running.append(process)
            assert process.stdout is not None
            if WAITS_FOR_OTHERS.search(command):
                await until(lambda: _is_connected(process.pid), command)
            else:
                assert await asyncio.wait_for(process.stdout.readline(), _TIMEOUT_S), f"{command!r} said nothing"
            return
        out, _ = await asyncio.wait_for(process.communicate(), _TIMEOUT_S)
        _print(out.decode(), flush=True)
        assert process.returncode == 0, f"{command!r} ended with {process.returncode}"

    async def _chasqui(self, command: str) -> None:
        codes: list[int] = []

        async def ended() -> bool:
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                codes.append(await asyncio.to_thread(run_chasqui, shlex.split(command)[1:]))
            _print(out.getvalue(), flush=True)
            self._printed = [out.getvalue()]
            return codes[-1] != NOT_THERE

        # What a worker is still busy with may not be there yet.
        await until(ended, every_s=0.1)
        assert codes[-1] == 0, f"{command!r} ended with {codes[-1]}"

    def _checked_print(self, *values: Any, **options: Any) -> None:
        frame = sys._getframe(1)
        line = self._lines[frame.f_lineno - 1] if frame.f_code.co_filename == str(self._page) else ""
        _print(*values, **options)
        self._printed.append(" ".join(map(str, values)) + "\n")
        if found := _EXPECTED.match(line):
            said = " ".join(map(str, values))
            assert said == found["text"], f"{self._page}:{frame.f_lineno} printed {said!r}"


def _is_connected(pid: int) -> bool:
    """Whether the process has begun its work: a Ctrl-C while Python starts would end it with a traceback."""
    with contextlib.suppress(OSError):
        return any(entry.readlink().name.startswith("socket:") for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ctrl-C, as the reader would."""
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
    out, _ = await asyncio.wait_for(process.communicate(), _TIMEOUT_S)
    assert process.returncode in (0, 130), f"what ran on ended with {process.returncode}: {out.decode()}"


if __name__ == "__main__":
    asyncio.run(Page(Path(sys.argv[1]).resolve()).run())
