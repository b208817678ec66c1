"""What a scenario measures with: a peer, a number of jobs, workers, and the record of what ran."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.peer import Peer
from benchmarks.resp import Server
from benchmarks.run_record import RunRecord

_FILL = 1000
_STOP_S = 15.0
_SETTLE_S = 10.0
_POLL_S = 0.02
_TRIAL = 200


class BenchError(Exception):
    """A figure that must not be believed: jobs are missing, or ran too often."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """One measurement under way."""

    name: str
    """Of the contestant."""
    peer: Peer
    jobs: int
    server: Server
    record: RunRecord
    """Has one slot more than there are jobs, for a first job that warms everything up."""
    log: Path
    """Where workers write what they have to say."""

    @property
    def numbers(self) -> range:
        return range(self.jobs)

    def batches(self, size: int) -> Iterator[range]:
        """The jobs' numbers, `size` at a time."""
        return (range(first, min(first + size, self.jobs)) for first in range(0, self.jobs, size))

    async def fill(self) -> None:
        """Puts all jobs on the queue."""
        for batch in self.batches(_FILL):
            await self.peer.fill(batch)
        self.check_waiting()

    async def fill_delayed(self) -> int:
        """Delays all jobs to one moment that lies after the last of them is added; returns it in epoch seconds."""
        trial = range(min(_TRIAL, self.jobs))
        began = time.perf_counter()
        await self.peer.fill_delayed(trial, int(time.time()) + 3600)
        per_job_s = (time.perf_counter() - began) / len(trial)
        self.server.command("FLUSHDB SYNC")
        due_s = math.ceil(time.time() + 3 + 1.5 * per_job_s * self.jobs)
        for batch in self.batches(_FILL):
            await self.peer.fill_delayed(batch, due_s)
        if time.time() > due_s:
            raise BenchError("the jobs were due before all of them were added")
        self.check_waiting()
        return due_s

    def check_waiting(self) -> None:
        """Every job must be in Redis."""
        if (waiting := self._waiting()) != self.jobs:
            raise BenchError(f"{waiting} jobs are waiting, {self.jobs} were added")

    @contextmanager
    def workers(self) -> Iterator[list[int]]:
        """The scenario's worker processes; gives their process ids."""
        work = self.peer.work
        command = [sys.executable, "-m", "benchmarks.worker", self.name, self.peer.url, json.dumps(asdict(work))]
        with self.log.open("ab") as log:
            processes = [
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                for _ in range(work.processes)
            ]
        try:
            yield [process.pid for process in processes]
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                _wait(process)

    @asynccontextmanager
    async def warm_workers(self) -> AsyncIterator[list[int]]:
        """Worker processes that have run a first job."""
        with self.workers() as pids:
            await self.peer.add(self.jobs)
            await until(lambda: self.record.started_ns(self.jobs))
            yield pids

    async def all_ran(self, times: int = 1) -> None:
        """Waits until every job ran that often, and then, for a while, until Redis knows it too."""
        await until(lambda: not any(self.record.runs(self.jobs).count(few) for few in range(times)))
        deadline_s = time.monotonic() + _SETTLE_S
        if self.peer.removes_finished:
            await until(lambda: not self._waiting() or time.monotonic() > deadline_s)

    def check_ran(self, times: int = 1) -> None:
        """Once the workers have ended: every job ran that often, and none is left."""
        if (fewest := min(self.record.runs(self.jobs))) < times:
            raise BenchError(f"a job ran {fewest} ×, not {times} ×")
        if self.peer.removes_finished and (left := self._waiting()):
            raise BenchError(f"{left} jobs are left although all of them ran")

    def ran_again(self, times: int = 1) -> int:
        """Runs beyond what was asked for; libraries promise at least once, not exactly once."""
        return max(0, sum(self.record.runs(self.jobs)) - times * self.jobs)

    def _waiting(self) -> int:
        return sum(self.server.length(key) for key in self.peer.waiting_keys)


async def until(condition: Callable[[], object], every_s: float = _POLL_S) -> None:
    """Looks again and again: what is waited for happens in another process. `run` ends what takes too long."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(every_s)


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def peak_rss_mb(pids: list[int]) -> float:
    """The most memory that these processes and their children ever held."""
    family = set(pids)
    parents = {pid: _status(pid, "PPid") for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
    for _ in range(3):  # children, grandchildren, theirs
        family |= {pid for pid, parent in parents.items() if parent in family}
    return sum(_status(pid, "VmHWM") for pid in family) / 1024


def _status(pid: int, field: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(field + ":")), 0)
