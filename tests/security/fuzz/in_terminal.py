"""Command lines in one real terminal. Each would take half a second to start by itself: one process runs them all."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.processes import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

_MARK = "end-of-command"
_END = re.compile(rf"{_MARK} (-?\d+)\r\n")
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a command wrote to the terminal, and its exit code."""

    words: Sequence[str]
    code: int
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines, without what the terminal adds to each."""
        return self.text.replace("\r\n", "\n").splitlines()


def run_in_terminal(url: str, commands: Sequence[Sequence[str]]) -> list[Said]:
    """Runs command lines one after the other, in a process whose only input and output is a terminal."""
    ours, theirs = pty.openpty()
    given = environment(url) | {"COLUMNS": "160", "CHASQUI_FUZZ_COMMANDS": json.dumps(commands)}
    started = [sys.executable, "-m", "tests.security.fuzz.in_terminal"]
    with subprocess.Popen(started, stdin=theirs, stdout=theirs, stderr=theirs, env=given) as process:
        os.close(theirs)
        # A terminal gives four kilobytes at a time, of tens of megabytes.
        written = list(iter(lambda: _read(ours), b""))
        process.wait(PATIENCE_S)
    os.close(ours)
    *parts, rest = _END.split(b"".join(written).decode())
    assert not rest, rest
    assert len(parts) == 2 * len(commands), rest
    return [Said(words, int(parts[2 * n + 1]), parts[2 * n]) for n, words in enumerate(commands)]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError as err:
        if err.errno != errno.EIO:  # nobody is left at the other end
            raise
        return b""


def _main() -> None:
    from chasqui_engine.cli.app import run

    for words in json.loads(os.environ.pop("CHASQUI_FUZZ_COMMANDS")):
        print(_MARK, run(words), flush=True)


if __name__ == "__main__":
    _main()
