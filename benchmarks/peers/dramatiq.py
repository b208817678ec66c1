"""Dramatiq on Redis."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware.asyncio import AsyncIO
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks.peers.peer import ATTEMPTS, BACKOFF_MS, QUEUE, Peer

_NO_BULK = "no bulk call: see add"


class Contestant(Peer):
    """Eight threads, its default; coroutines run in one event loop beside them. Delayed jobs are held by the worker."""

    left_out: ClassVar = {
        "add-bulk-50": _NO_BULK,
        "add-bulk-1000": _NO_BULK,
        "add-delayed-bulk": _NO_BULK,
        "add-with-options-bulk": _NO_BULK,
        "work-events": "no events",
    }
    most_jobs: ClassVar = {"*": 2_000, "latency": 1_000, "memory-delayed": 20_000, "retry": 1_000}
    waiting_keys = (f"dramatiq:{QUEUE}", f"dramatiq:{QUEUE}.DQ")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._broker = RedisBroker(url=self.url)
        self._broker.add_middleware(AsyncIO())
        if self.work.results:
            self._broker.add_middleware(Results(backend=RedisBackend(url=self.url), store_results=True))
        dramatiq.set_broker(self._broker)
        plain = self.work.handler == "plain"
        self._actor = dramatiq.actor(
            self._plain_handler if plain else self._async_handler,
            actor_name="noop",
            queue_name=QUEUE,
            max_retries=ATTEMPTS,
            min_backoff=BACKOFF_MS,
        )

    async def add(self, n: int) -> Any:
        return self._actor.send({"n": n})

    async def fill(self, ns: Sequence[int]) -> None:
        for n in ns:
            self._actor.send({"n": n})

    async def fill_delayed(self, ns: Sequence[int], due_s: int) -> None:
        for n in ns:
            message = self._actor.message({"n": n})
            options = {**message.options, "eta": due_s * 1000}
            self._broker.enqueue(message.copy(queue_name=f"{QUEUE}.DQ", options=options))

    async def results(self, ns: Sequence[int]) -> list[Any]:
        messages = [self._actor.send({"n": n}) for n in ns]
        return [message.get_result(block=True, timeout=120_000) for message in messages]

    def run_worker(self) -> None:
        asked = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: asked.set())
        # The number of threads is the default, 8: with 100 it is slower.
        worker = dramatiq.Worker(self._broker)
        worker.start()
        asked.wait()
        worker.stop()

    async def _async_handler(self, data: dict[str, int]) -> int | None:
        return self.ran(data["n"])

    def _plain_handler(self, data: dict[str, int]) -> int | None:
        return self.ran(data["n"])
