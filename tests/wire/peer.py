"""ChasquiMQ in a process of its own, driven by lines of JSON: its module can abort an interpreter at exit.

A request is `{"n": 1, "do": "add", "queue": …, "args": […], "options": {…}}`, its answer `{"n": 1, "ok": …}` or
`{"n": 1, "error": …}`. What is not a verb of this program is a method of ChasquiMQ's `Queue`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import sys
from typing import Any

STOP_TIMEOUT_S = 10
READ_BLOCK_MS = 50


async def act(job: Any, unrecoverable: type[Exception]) -> Any:
    """The handler of every worker in these tests, of either engine: does what the job's data says."""
    data = job.data if isinstance(job.data, dict) else {}
    if "sleep" in data:
        await asyncio.sleep(data["sleep"])
    if "bury" in data:
        raise unrecoverable(data["bury"])
    if "fail" in data and job.attempt < data.get("times", sys.maxsize):
        raise ValueError(data["fail"])
    return data.get("value", job.data)


def record(job: Any) -> list[Any]:
    """What a handler was given."""
    return [job.id, job.name, job.data, job.attempt, job.created_at_ms]


def to_json(value: Any) -> Any:
    """What JSON has no form for, in one that it has."""
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: item for name, item in vars(value).items() if not name.startswith("_")}
    return list(value)


def from_json(value: dict[str, Any]) -> Any:
    """The inverse for bytes."""
    return bytes.fromhex(value["hex"]) if value.keys() == {"hex"} else value


class Peer:
    """ChasquiMQ's objects, one of each kind per queue, made when they are first needed."""

    def __init__(self, url: str) -> None:
        import chasquimq

        self._chasquimq = chasquimq
        self._url = url
        self._queues: dict[str, Any] = {}
        self._runs: dict[str, list[Any]] = {}
        self._heard: dict[str, list[Any]] = {}
        self._listeners: dict[str, Any] = {}
        self._services: dict[str, list[tuple[Any, asyncio.Task[None]]]] = {}

    async def do(self, verb: str, queue: str, args: list[Any], options: dict[str, Any]) -> Any:
        own = getattr(self, f"do_{verb}", None)
        if own is not None:
            return await own(queue, *args, **options)
        if queue not in self._queues:
            self._queues[queue] = self._chasquimq.Queue(queue, redis_url=self._url)
        if "repeat" in options:
            options["repeat"] = self._pattern(**options["repeat"])
        return await getattr(self._queues[queue], verb)(*args, **options)

    def _pattern(self, kind: str, expression: str = "", tz: str | None = None, interval_ms: int = 0) -> Any:
        patterns = self._chasquimq.RepeatPattern
        return patterns.cron(expression, tz=tz) if kind == "cron" else patterns.every(interval_ms)

    async def do_work(self, queue: str, **options: Any) -> None:
        """Starts a worker."""
        runs = self._runs.setdefault(queue, [])

        async def handler(job: Any) -> Any:
            runs.append(record(job))
            return await act(job, self._chasquimq.UnrecoverableError)

        options = {"read_block_ms": READ_BLOCK_MS, "run_scheduler": False, **options}
        worker = self._chasquimq.Worker(queue, handler, redis_url=self._url, **options)
        self._serve(queue, worker.run(), worker.close)

    async def do_schedule(self, queue: str, **options: Any) -> None:
        """Starts a scheduler."""
        from chasquimq import _native

        scheduler = _native.Scheduler(self._url, queue, **{"tick_interval_ms": 50, **options})

        async def run() -> None:
            await scheduler.run()

        async def stop() -> None:
            scheduler.shutdown()

        self._serve(queue, run(), stop)

    def _serve(self, queue: str, running: Any, stop: Any) -> None:
        self._services.setdefault(queue, []).append((stop, asyncio.ensure_future(running)))

    async def do_stop(self, queue: str) -> None:
        """Stops whatever runs for a queue."""
        services = self._services.pop(queue, [])
        for stop, running in services:
            await stop()
            await asyncio.wait_for(running, STOP_TIMEOUT_S)
        if services:
            # A worker that has returned leaves a read behind that still blocks; what comes meanwhile, it swallows.
            await asyncio.sleep(3 * READ_BLOCK_MS / 1000)
        if queue in self._listeners:
            subscription, listening = self._listeners.pop(queue)
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
            await subscription.close()

    async def do_runs(self, queue: str) -> list[Any]:
        """What the handlers were given so far."""
        return self._runs.get(queue, [])

    async def do_listen(self, queue: str) -> None:
        """Starts a subscriber at the oldest event."""
        subscription = self._chasquimq.QueueEvents(queue, redis_url=self._url, last_event_id="0", block_ms=50)
        heard = self._heard.setdefault(queue, [])

        async def listen() -> None:
            async for event in subscription:
                heard.append(event)

        self._listeners[queue] = subscription, asyncio.ensure_future(listen())

    async def do_heard(self, queue: str) -> list[Any]:
        """The events so far."""
        return self._heard.get(queue, [])

    async def do_wait_for_result(self, queue: str, job_id: str, timeout: float) -> Any:
        """Like `Job.wait_for_result`, for a job id."""
        queue_of_job = self._chasquimq.Queue(queue, redis_url=self._url)
        job = self._chasquimq.Job(id=job_id, name="", data=None, attempt=0, created_at_ms=0, _queue=queue_of_job)
        return await job.wait_for_result(timeout=timeout, poll_interval=0.02)


async def serve(url: str) -> None:
    peer = Peer(url)
    lines = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    answering: set[asyncio.Task[None]] = set()

    async def answer(request: dict[str, Any]) -> None:
        try:
            ok = await peer.do(request["do"], request["queue"], request["args"], request["options"])
            reply = json.dumps({"n": request["n"], "ok": ok}, default=to_json)
        except Exception as err:
            reply = json.dumps({"n": request["n"], "error": f"{type(err).__name__}: {err}"})
        print(reply, flush=True)

    while line := await lines.readline():
        task = asyncio.create_task(answer(json.loads(line, object_hook=from_json)))
        answering.add(task)
        task.add_done_callback(answering.discard)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
    # Past the clean-up in which the module may abort.
    os._exit(0)
