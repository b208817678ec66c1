"""Planned failovers under load: producers, a worker and a blocking writer, and what became of what was accepted."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from chasqui_engine import Job, Queue, RedisError
from chasqui_engine._redis.blocking.connection import BulkConnection
from tests.support.connections.sentinels import wait_until
from tests.support.ledger import Ledger, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.connections.sentinels import Watched

_IN_STEP_BYTES = 1 << 20
_AFTER_S = 10.0
"""How long the load goes on after the sentinels name another master: left alone, the old one takes writes for nine."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """More than the worker can do, so that jobs wait when the master changes: those are the ones that can be lost."""

    producers: int = 4
    pause_s: float = 0.005
    job_s: float = 0.15
    concurrency: int = 80


@dataclass(frozen=True, kw_only=True)
class Outcome:
    accepted: int
    refused: int
    unconfirmed: int
    """In flight when the old master was left, and not answered in time: the producer was told so."""
    lost: int
    again: int
    written: int
    """By the blocking connection."""
    unwritten: int
    """What it was told is written, and is not there."""


class _Producers:
    """Number their jobs, and note which were accepted."""

    def __init__(self, queue: Queue, load: Load) -> None:
        self._queue = queue
        self._load = load
        self._stopped = False
        self.accepted: set[str] = set()
        self.refused = 0
        self.unconfirmed = 0

    async def run(self) -> None:
        await asyncio.gather(*(self._produce(number) for number in range(self._load.producers)))

    def stop(self) -> None:
        self._stopped = True

    async def _produce(self, producer: int) -> None:
        number = 0
        while not self._stopped:
            number += 1
            name = f"{producer}-{number}"
            try:
                await self._queue.add("n", name)
            except RedisError as error:
                if "may or may not have run" in str(error):
                    self.unconfirmed += 1
                else:
                    self.refused += 1
            else:
                self.accepted.add(name)
            await asyncio.sleep(self._load.pause_s)


class _BlockingWriter:
    """Writes numbers into a set of its own, from a thread, until it is stopped."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._key = key
        self._stopped = threading.Event()
        self.written = 0

    def run(self) -> None:
        with BulkConnection(self._url, self._key) as connection:
            while not self._stopped.wait(0.002):
                # Longer than it is patient by itself, as Spark is when it runs a task again.
                with contextlib.suppress(RedisError):
                    connection.patiently(lambda: connection.call("SADD", self._key, self.written))
                    self.written += 1

    def stop(self) -> None:
        self._stopped.set()

    def missing(self) -> int:
        with BulkConnection(self._url, self._key) as connection:
            found = {int(member) for member in connection.call("SMEMBERS", self._key)}
        return len(set(range(self.written)) - found)


class _SlowLedger(Ledger):
    def __init__(self, job_s: float) -> None:
        super().__init__()
        self._job_s = job_s

    async def handle(self, job: Job) -> None:
        await asyncio.sleep(self._job_s)
        await super().handle(job)


async def fail_over(watched: Watched, queue_name: str, load: Load, times: int) -> Outcome:
    """Asks for failovers, one after the other, and lets everything settle."""
    ledger = _SlowLedger(load.job_s)
    writer = _BlockingWriter(watched.url, f"{{{queue_name}}}:numbers")
    async with (
        working(queue_name, watched.url, ledger, concurrency=load.concurrency),
        Queue(queue_name, redis_url=watched.url) as queue,
    ):
        producers = _Producers(queue, load)
        producing = asyncio.create_task(producers.run())
        writing = asyncio.create_task(asyncio.to_thread(writer.run))
        await until(ledger.has(500))
        for _ in range(times):
            await asyncio.to_thread(_change_master, watched)
            await asyncio.sleep(_AFTER_S)
        producers.stop()
        writer.stop()
        await asyncio.gather(producing, writing)
        with contextlib.suppress(AssertionError):  # what is lost is counted
            await until(lambda: producers.accepted <= set(ledger.runs), timeout_s=60, every_s=0.2)
    return Outcome(
        accepted=len(producers.accepted),
        refused=producers.refused,
        unconfirmed=producers.unconfirmed,
        lost=len(producers.accepted - set(ledger.runs)),
        again=ledger.twice,
        written=writer.written,
        unwritten=await asyncio.to_thread(writer.missing),
    )


def _change_master(watched: Watched) -> None:
    asked = watched.sentinels[0]
    before = asked.master()["port"]
    # Sentinel would promote a replica that is still being filled as well: what it has not got yet is lost then.
    with redis.Redis(port=int(before)) as master:
        wait_until(lambda: is_in_step(master), "a replica in step")
    wait_until(asked.fail_over, "a failover that can begin")
    wait_until(lambda: asked.master()["port"] != before, "another master")


def is_in_step(master: redis.Redis) -> bool:
    """Whether the replica has all but the newest of what the master has, as both of them say."""
    facts: dict[str, Any] = master.info("replication")
    replica = facts.get("slave0", {})
    if replica.get("state") != "online" or facts["master_repl_offset"] - replica["offset"] >= _IN_STEP_BYTES:
        return False
    # A master calls a replica online that has not read its file yet.
    with redis.Redis(replica["ip"], replica["port"]) as asked:
        return bool(asked.info("replication")["master_link_status"] == "up")
