"""Celery on Redis."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import celery

from benchmarks.peers.peer import ATTEMPTS, BACKOFF_MS, CONCURRENCY, QUEUE, FailsOnceError, Peer

_NO_BULK = "no bulk call: see add"


class Contestant(Peer):
    """Plain functions in a pool of threads. Delayed jobs are held by the worker."""

    left_out: ClassVar = {
        "add-bulk-50": _NO_BULK,
        "add-bulk-1000": _NO_BULK,
        "add-delayed-bulk": _NO_BULK,
        "add-with-options-bulk": _NO_BULK,
    }
    most_jobs: ClassVar = {"*": 1_500, "latency": 500, "memory-delayed": 20_000, "retry": 1_000}
    waiting_keys = (QUEUE,)

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._app = celery.Celery("bench", broker=self.url, backend=self.url if self.work.results else None)
        self._app.conf.update(task_default_queue=QUEUE, task_ignore_result=not self.work.results)
        again = {"autoretry_for": (FailsOnceError,), "default_retry_delay": BACKOFF_MS / 1000, "max_retries": ATTEMPTS}

        @self._app.task(name="noop", **again)
        def noop(data: dict[str, int]) -> int | None:
            return self.ran(data["n"])

        self._task = noop

    async def add(self, n: int) -> Any:
        return self._task.delay({"n": n})

    async def fill(self, ns: Sequence[int]) -> None:
        for n in ns:
            self._task.delay({"n": n})

    async def fill_delayed(self, ns: Sequence[int], due_s: int) -> None:
        due = datetime.fromtimestamp(due_s, UTC)
        for n in ns:
            self._task.apply_async(({"n": n},), eta=due)

    async def results(self, ns: Sequence[int]) -> list[Any]:
        waiting = [self._task.delay({"n": n}) for n in ns]
        return [result.get(timeout=120) for result in waiting]

    def run_worker(self) -> None:
        events = ["--task-events"] if self.work.events else []
        own_name = f"--hostname=bench-{os.getpid()}@localhost"
        self._app.worker_main(
            ["worker", "--pool=threads", f"--concurrency={CONCURRENCY}", "--loglevel=CRITICAL", own_name, *events]
        )
