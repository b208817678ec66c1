"""RQ."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import redis
import rq

from benchmarks.peers.peer import ATTEMPTS, QUEUE, FailsOnceError, Peer
from benchmarks.run_record import shared_record

_DELAYS_ONE_BY_ONE = "its bulk call takes no delays"


def noop(data: dict[str, int]) -> None:
    """Jobs are functions found by name, so these are at the module's level."""
    shared_record().tick(data["n"])


def noop_with_result(data: dict[str, int]) -> int:
    shared_record().tick(data["n"])
    return data["n"]


def fails_once(data: dict[str, int]) -> None:
    if shared_record().tick(data["n"]) == 0:
        raise FailsOnceError(f"job {data['n']} fails on its first run")


class Contestant(Peer):
    """`SimpleWorker`, the quickest of its workers: one plain function at a time, without a fork for each."""

    left_out: ClassVar = {
        "add-delayed-bulk": _DELAYS_ONE_BY_ONE,
        "add-with-options-bulk": _DELAYS_ONE_BY_ONE,
        "work-events": "no events",
    }
    most_jobs: ClassVar = {
        "*": 500,
        "add-bulk-50": 20_000,
        "add-bulk-1000": 20_000,
        "latency": 500,
        "memory-delayed": 20_000,
        "retry": 500,
    }
    waiting_keys = (f"rq:queue:{QUEUE}", f"rq:scheduled:{QUEUE}")

    async def open(self) -> None:
        self._queue = rq.Queue(QUEUE, connection=redis.Redis.from_url(self.url))
        self._options: dict[str, Any] = {"result_ttl": 500 if self.work.results else 0}
        self._function = noop_with_result if self.work.results else noop
        if self.work.handler == "fails once":
            self._function = fails_once
            self._options["retry"] = rq.Retry(max=ATTEMPTS)

    async def add(self, n: int) -> Any:
        return self._queue.enqueue(self._function, {"n": n}, **self._options)

    async def add_bulk(self, ns: Sequence[int]) -> Any:
        return self._queue.enqueue_many(
            [self._queue.prepare_data(self._function, args=({"n": n},), **self._options) for n in ns]
        )

    async def fill_delayed(self, ns: Sequence[int], due_s: int) -> None:
        due = datetime.fromtimestamp(due_s, UTC)
        with self._queue.connection.pipeline() as pipe:
            for n in ns:
                self._queue.enqueue_at(due, self._function, {"n": n}, pipeline=pipe, **self._options)
            pipe.execute()

    async def results(self, ns: Sequence[int]) -> list[Any]:
        return [job.latest_result(timeout=120).return_value for job in await self.add_bulk(ns)]

    def run_worker(self) -> None:
        connection = redis.Redis.from_url(self.url)
        rq.SimpleWorker([QUEUE], connection=connection).work(with_scheduler=self.work.delays, logging_level="CRITICAL")
