"""Worker processes that can be hurt, and the ledger of what they ran."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chasqui_engine._redis.keys import QueueKeys

if TYPE_CHECKING:
    from redis.asyncio import Redis

ROOT = Path(__file__).parents[2]


class Ledger:
    """What the workers wrote down: a line for every start and every end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def starts(self) -> Counter[int]:
        """How often each job was begun."""
        return self._count("start")

    def ends(self) -> Counter[int]:
        """How often each job was run to its end."""
        return self._count("end")

    def _count(self, what: str) -> Counter[int]:
        lines = self.path.read_text().splitlines()
        return Counter(int(line.split()[1]) for line in lines if line.startswith(f"{what} ") and line.count(" ") == 2)


class Fleet:
    """Worker processes on one queue."""

    def __init__(self, url: str, queue: str, ledger: Ledger, **settings: Any) -> None:
        self._settings = {"url": url, "queue": queue, "ledger": str(ledger.path), **settings}
        self._log = ledger.path.with_suffix(".log").open("ab")
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, **changes: Any) -> subprocess.Popen[bytes]:
        """One more worker."""
        command = [sys.executable, "-m", "tests.acceptance.worker_main", json.dumps({**self._settings, **changes})]
        worker = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        self.workers.append(worker)
        return worker

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
