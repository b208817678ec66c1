"""What really ran, and when: a file that the handlers of every worker process write and the measuring process reads.

Per job it holds two start times (the first run, the last run after it) in nanoseconds of the monotonic clock, which all
processes of a machine share, and one byte that counts the runs.
"""

from __future__ import annotations

import functools
import mmap
import os
import time
from pathlib import Path

PATH_VARIABLE = "CHASQUI_BENCH_TALLY"
_BYTES_PER_JOB = 17


class RunRecord:
    """The record in `path`, for jobs 0 to `size` - 1."""

    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size // _BYTES_PER_JOB
        with path.open("r+b") as file:
            view = memoryview(mmap.mmap(file.fileno(), 0))
        self._starts = view[: 16 * self.size].cast("q")
        self._runs = view[16 * self.size :]

    @staticmethod
    def create(path: Path, size: int) -> RunRecord:
        """A record in which nothing ran."""
        path.write_bytes(bytes(size * _BYTES_PER_JOB))
        return RunRecord(path)

    def tick(self, n: int) -> int:
        """Job `n` starts; returns how often it ran before."""
        before = self._runs[n]
        self._runs[n] = before + 1
        self._starts[n + self.size if before else n] = time.monotonic_ns()
        return before

    def runs(self, jobs: int) -> bytes:
        """How often each of the first `jobs` jobs ran."""
        return bytes(self._runs[:jobs])

    def started_ns(self, n: int) -> int:
        """When job `n` first started; 0 if it never did."""
        return self._starts[n]

    def span_s(self, jobs: int) -> float:
        """From the first start of a job to the last."""
        return (self.last_start_ns(jobs) - min(self._starts[:jobs])) / 1e9

    def last_start_ns(self, jobs: int) -> int:
        """The last start of all."""
        again = self._starts[self.size : self.size + jobs]
        return max(map(max, self._starts[:jobs], again))


@functools.cache
def shared_record() -> RunRecord:
    """The record that this process was started for."""
    return RunRecord(Path(os.environ[PATH_VARIABLE]))
