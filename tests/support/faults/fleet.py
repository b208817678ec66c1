"""Worker processes that can be hurt, and the ledger of what they ran."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chasqui_engine._redis.commands.keys import QueueKeys

if TYPE_CHECKING:
    from redis.asyncio import Redis

ROOT = Path(__file__).parents[3]


def tasks_file(ledger: str | Path, pid: int) -> Path:
    """Where a worker process writes how many tasks it has, when it is asked."""
    return Path(f"{ledger}.tasks-{pid}")


class Ledger:
    """What the workers wrote down, line by line as it happened: who began which job, and how that went."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._read_to = 0
        self._starts: Counter[int] = Counter()
        self._ends: Counter[int] = Counter()
        self._fails: Counter[int] = Counter()
        self._begun: dict[int, list[int]] = {}
        self._in_hand: dict[int, set[int]] = {}
        self._again = Counter(running=0, ended=0)

    def starts(self) -> Counter[int]:
        """How often each job was begun."""
        self._follow()
        return self._starts

    def ends(self) -> Counter[int]:
        """How often each job was run to its end."""
        self._follow()
        return self._ends

    def again(self) -> Counter[str]:
        """Starts that should not have been needed: of jobs that were `running`, and of jobs that had `ended` before.

        A run that failed, as the job's data told it to, has to be followed by another.
        """
        self._follow()
        return self._again

    def workers(self) -> list[int]:
        """The processes that have begun jobs."""
        self._follow()
        return list(self._begun)

    def begun_by(self, pid: int) -> list[int]:
        """The jobs that a process has begun."""
        self._follow()
        return self._begun.get(pid, [])

    def in_hand_of(self, pid: int) -> set[int]:
        """The jobs that a process has begun and not ended."""
        self._follow()
        return self._in_hand.get(pid, set())

    def _follow(self) -> None:
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            whole = file.read().rpartition(b"\n")[0]
        self._read_to += len(whole) + 1 if whole else 0
        for line in whole.decode().splitlines():
            what, number, pid = line.split()
            self._note(what, int(number), int(pid))

    def _note(self, what: str, number: int, pid: int) -> None:
        in_hand = self._in_hand.setdefault(pid, set())
        if what != "start":
            in_hand.discard(number)
        if what == "end":
            self._ends[number] += 1
        elif what == "fail":
            self._fails[number] += 1
        else:
            if self._ends[number]:
                self._again["ended"] += 1
            elif self._starts[number] > self._fails[number]:
                self._again["running"] += 1
            in_hand.add(number)
            self._starts[number] += 1
            self._begun.setdefault(pid, []).append(number)


class Fleet:
    """Worker processes on one queue; `before` is what their command lines begin with."""

    def __init__(self, url: str, queue: str, ledger: Ledger, *, before: tuple[str, ...] = (), **settings: Any) -> None:
        self._before = before
        self._settings = {"url": url, "queue": queue, "ledger": str(ledger.path), **settings}
        self._log = ledger.path.with_suffix(".log").open("ab")
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, **changes: Any) -> subprocess.Popen[bytes]:
        """One more worker."""
        command = [sys.executable, "-m", "tests.support.faults.worker_main", json.dumps({**self._settings, **changes})]
        worker = subprocess.Popen(
            [*self._before, *command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        self.workers.append(worker)
        return worker

    def at_strength(self, count: int) -> None:
        """As many workers as there should be: those that have ended are replaced."""
        self.workers[:] = [worker for worker in self.workers if worker.poll() is None]
        for _ in range(count - len(self.workers)):
            self.start()

    def kill(self, worker: subprocess.Popen[bytes]) -> None:
        """kill -9."""
        worker.send_signal(signal.SIGKILL)
        worker.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                self.kill(worker)
        self._log.close()


async def left_over(raw: Redis, queue: str) -> dict[str, int]:
    """What is still in Redis, by where."""
    keys = QueueKeys(queue)
    return {
        "stream": await raw.xlen(keys.stream),
        "delayed": await raw.zcard(keys.delayed),
        "dead": await raw.xlen(keys.dlq),
    }


EMPTY = {"stream": 0, "delayed": 0, "dead": 0}
