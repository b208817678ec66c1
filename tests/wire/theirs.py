"""The test's side of the process in which ChasquiMQ runs."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.support.waiting import until
from tests.wire.peer import from_json, to_json

ANSWER_TIMEOUT_S = 30.0
EXIT_TIMEOUT_S = 10.0


class TheirError(Exception):
    """What ChasquiMQ raised: type and text."""


class PeerProcess:
    """The process; any number of requests may be under way."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("peer.py")), url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._asked = 0
        self._reader = threading.Thread(target=self._read, name="their-answers", daemon=True)
        self._reader.start()

    async def ask(self, verb: str, queue: str, *args: Any, **options: Any) -> Any:
        future: Future[Any] = Future()
        with self._lock:
            self._asked += 1
            self._waiting[self._asked] = future
            request = {"n": self._asked, "do": verb, "queue": queue, "args": args, "options": options}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request, default=to_json) + "\n")
            self._process.stdin.flush()
        return await asyncio.wait_for(asyncio.wrap_future(future), ANSWER_TIMEOUT_S)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reply = json.loads(line, object_hook=from_json)
            future = self._waiting.pop(reply["n"])
            if future.cancelled():
                continue
            if "error" in reply:
                future.set_exception(TheirError(reply["error"]))
            else:
                future.set_result(reply["ok"])
        for future in self._waiting.values():
            future.set_exception(TheirError("the process that runs ChasquiMQ has ended"))


class Theirs:
    """ChasquiMQ on one queue: the methods of its `Queue`, and the verbs of the peer."""

    def __init__(self, process: PeerProcess, queue: str) -> None:
        self._process = process
        self._queue = queue

    def __getattr__(self, verb: str) -> Any:
        async def ask(*args: Any, **options: Any) -> Any:
            return await self._process.ask(verb, self._queue, *args, **options)

        return ask

    async def wait_for_runs(self, count: int) -> list[Any]:
        """What their handlers were given, as soon as there are `count` runs."""
        return await until(lambda: self._enough(count))

    async def _enough(self, count: int) -> list[Any] | None:
        runs: list[Any] = await self.runs()
        return runs if len(runs) >= count else None

    async def wait_for_event(self, name: str, count: int = 1) -> list[Any]:
        """Everything their subscriber heard, as soon as `count` events of a name are among it."""

        async def heard() -> list[Any] | None:
            events: list[Any] = await self.heard()
            return events if sum(event["name"] == name for event in events) >= count else None

        return await until(heard)
