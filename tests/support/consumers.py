"""Running consumers inside a test, and as processes that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from redis.exceptions import ResponseError

from chasqui_engine import Consumer, ConsumerConfig, Job, Producer, ProducerConfig, RetryConfig
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.waiting import PATIENCE_S, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

    from chasqui_engine import Handler

QUICK: dict[str, Any] = {
    "block_ms": 200,
    "delayed_poll_interval_ms": 10,
    "retry": RetryConfig(initial_backoff_ms=5, jitter_ms=0),
    "run_scheduler": False,
    "shutdown_deadline_secs": 5,
}
"""Settings for tests that should not wait."""


@dataclass
class RunningConsumer:
    """A consumer at work in this process."""

    config: ConsumerConfig
    task: asyncio.Task[None]
    shutdown: asyncio.Event

    async def stop(self) -> None:
        """Gives the signal and waits for the end."""
        self.shutdown.set()
        await asyncio.wait_for(asyncio.shield(self.task), PATIENCE_S)


@contextlib.asynccontextmanager
async def consuming(url: str, queue: str, handler: Handler, **settings: Any) -> AsyncIterator[RunningConsumer]:
    """A consumer that runs `handler`; stopped at the end, and it must end well."""
    config = ConsumerConfig(queue_name=queue, **{**QUICK, **settings})
    shutdown = asyncio.Event()
    running = RunningConsumer(config, asyncio.create_task(Consumer(url, config).run(handler, shutdown)), shutdown)
    try:
        yield running
        await running.stop()
    finally:
        shutdown.set()
        await asyncio.wait([running.task], timeout=PATIENCE_S)


@contextlib.asynccontextmanager
async def producing(url: str, queue: str) -> AsyncIterator[Producer]:
    """A producer of the queue."""
    async with await Producer.connect(url, ProducerConfig(queue_name=queue)) as producer:
        yield producer


async def add(url: str, queue: str, *payloads: Any) -> list[str]:
    """Adds jobs; returns their ids."""
    async with producing(url, queue) as producer:
        return await producer.add_bulk(payloads)


@dataclass
class Recorder:
    """A handler that notes what it was given and returns at once."""

    jobs: list[Job] = field(default_factory=list)

    async def __call__(self, job: Job) -> None:
        self.jobs.append(job)

    @property
    def payloads(self) -> list[Any]:
        return [job.payload for job in self.jobs]


class Gate:
    """A handler that holds every job until it is opened."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.finished: list[Any] = []
        self._open = asyncio.Event()

    def open(self) -> None:
        self._open.set()

    async def __call__(self, job: Job) -> Any:
        self.started.append(job.payload)
        await self._open.wait()
        self.finished.append(job.payload)
        return job.payload


async def pending(raw: Redis, queue: str, group: str = "default") -> dict[bytes, bytes]:
    """Entry → consumer, of everything that was delivered and not acked."""
    try:
        entries = await raw.xpending_range(QueueKeys(queue).stream, group, "-", "+", 10_000)
    except ResponseError:  # no consumer has made the group yet
        return {}
    return {entry["message_id"]: entry["consumer"] for entry in entries}


async def steal(raw: Redis, queue: str, entry_ids: list[bytes], thief: str = "thief", group: str = "default") -> None:
    """Another consumer claims entries."""
    claimed = await raw.xclaim(QueueKeys(queue).stream, group, thief, 0, entry_ids, justid=True)
    assert sorted(claimed) == sorted(entry_ids)


class WorkerProcess:
    """A worker in a process of its own, whose handler writes down what it does in a Redis list."""

    def __init__(self, url: str, queue: str, behaviour: str, *, engine: str = "chasqui", **settings: Any) -> None:
        arguments = json.dumps({"url": url, "queue": queue, "behaviour": behaviour, "engine": engine, **settings})
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.worker_process", arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def terminate(self) -> None:
        """Gives the signal to stop."""
        self.process.terminate()

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    async def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Waits for its end; returns the exit code."""
        await until(lambda: self.process.poll() is not None, timeout_s=timeout_s)
        return int(self.process.returncode)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


def diary_key(queue: str) -> str:
    """Where worker processes write what their handlers do."""
    return f"{{chasqui:{queue}}}:diary"


async def diary(raw: Redis, queue: str) -> list[list[Any]]:
    """What the handlers of worker processes did: [what, payload, attempt, pid]."""
    return [json.loads(line) for line in await raw.lrange(diary_key(queue), 0, -1)]


async def noted(raw: Redis, queue: str, what: str) -> list[Any]:
    """The payloads with which something was done, in order."""
    return [line[1] for line in await diary(raw, queue) if line[0] == what]
