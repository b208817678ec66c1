"""A worker to be killed: `python -m tests.support.worker_process '{"url": …, "behaviour": …}'`.

Its handler writes each step into a Redis list at once, so that a test sees what was done even by a dead process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from typing import Any

import redis

from tests.support.consumers import diary_key


class Diary:
    """What the handlers do, in Redis."""

    def __init__(self, url: str, queue: str) -> None:
        self._redis = redis.Redis.from_url(url)
        self._key = diary_key(queue)

    def note(self, what: str, job: Any) -> None:
        self._redis.rpush(self._key, json.dumps([what, job.data, job.attempt, os.getpid()]))


def handler_for(behaviour: str, diary: Diary) -> Any:
    """`kind` or `kind:seconds`."""
    kind, _, seconds = behaviour.partition(":")
    duration_s = float(seconds or 0)

    async def sleep(job: Any) -> None:
        diary.note("started", job)
        await asyncio.sleep(duration_s)
        diary.note("finished", job)

    async def block(job: Any) -> None:
        diary.note("started", job)
        time.sleep(duration_s)
        diary.note("finished", job)

    def thread(job: Any) -> None:
        diary.note("started", job)
        time.sleep(duration_s)
        diary.note("finished", job)

    def watchful(job: Any) -> None:
        diary.note("started", job)
        end = time.monotonic() + duration_s
        while time.monotonic() < end and not job.aborting:
            time.sleep(0.01)
        diary.note("stopped" if job.aborting else "finished", job)

    async def stubborn(job: Any) -> None:
        diary.note("started", job)
        end = time.monotonic() + duration_s
        while (left := end - time.monotonic()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                diary.note("shrugged", job)

    async def die(job: Any) -> None:
        diary.note("started", job)
        os.kill(os.getpid(), signal.SIGKILL)

    kinds = {"sleep": sleep, "block": block, "thread": thread, "watchful": watchful, "stubborn": stubborn}
    kinds |= {"die": die}
    return {**kinds, **forking_handlers(diary)}[kind]


def forking_handlers(diary: Diary) -> dict[str, Any]:
    """Their children come back to the event loop, or right to the worker, or outlive it."""

    async def fork(job: Any) -> None:
        diary.note("started", job)
        if job.data == "fork":
            os.fork()
        await asyncio.sleep(0.02)
        if job.data == "fork at the end":
            os.fork()

    def fork_thread(job: Any) -> None:
        diary.note("started", job)
        if job.data in ("fork", "fork at the end"):
            os.fork()

    async def fork_and_die(job: Any) -> None:
        diary.note("started", job)
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    return {"fork": fork, "fork_thread": fork_thread, "fork_and_die": fork_and_die}


def sleep_in_process(job: Any) -> None:
    """For handlers that run in a process pool: importable, and with nothing open."""
    time.sleep(float(job.data))


async def run(arguments: dict[str, Any]) -> None:
    """One worker until SIGTERM."""
    url, queue = arguments.pop("url"), arguments.pop("queue")
    engine, behaviour = arguments.pop("engine"), arguments.pop("behaviour")
    if engine == "chasquimq":
        from chasquimq import Worker
    else:
        from chasqui_engine import Worker
    handler = sleep_in_process if behaviour == "process" else handler_for(behaviour, Diary(url, queue))
    worker = Worker(queue, handler, redis_url=url, **arguments)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: loop.create_task(worker.close()))
    await worker.run()


if __name__ == "__main__":
    asyncio.run(run(json.loads(sys.argv[1])))
