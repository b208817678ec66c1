"""The line at the bottom of a worker's terminal, and the numbers in it.

Written by hand, because `rich.live` takes 80 ms to import (measured), a sixth of the half second in which a worker
is to start, and a line above which whole lines are printed is all that is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TextIO

from chasqui_engine.cli.output.formatting import ago
from chasqui_engine.metrics import (
    DlqRouted,
    JobOutcome,
    JobOutcomeKind,
    LockOutcome,
    MetricsSink,
    NoopSink,
    PromoterTick,
    ReaderBatch,
    RetryScheduled,
)
from chasqui_engine.runtime.clock import monotonic

_RATE_OVER_S = 5.0
_CHUNK = 64 * 1024


@dataclass(slots=True)
class Numbers:
    """The jobs of a worker so far."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0

    def add(self, others: Numbers) -> None:
        """Adds these."""
        for name, value in others.as_dict().items():
            setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return asdict(self)


class Tally(MetricsSink):
    """Counts jobs, and passes every metric on to another sink."""

    __slots__ = ("_inner", "numbers")

    def __init__(self, inner: MetricsSink | None = None) -> None:
        self.numbers = Numbers()
        self._inner = inner or NoopSink()

    def job_outcome(self, outcome: JobOutcome) -> None:
        """Counts a run."""
        if outcome.kind is JobOutcomeKind.OK:
            self.numbers.done += 1
        else:
            self.numbers.failed += 1
        self._inner.job_outcome(outcome)

    def retry_scheduled(self, retry: RetryScheduled) -> None:
        """Counts a retry."""
        self.numbers.retried += 1
        self._inner.retry_scheduled(retry)

    def dlq_routed(self, dlq: DlqRouted) -> None:
        """Counts a burial."""
        self.numbers.dead += 1
        self._inner.dlq_routed(dlq)

    def reader_batch(self, batch: ReaderBatch) -> None:
        """Passed on."""
        self._inner.reader_batch(batch)

    def promoter_tick(self, tick: PromoterTick) -> None:
        """Passed on."""
        self._inner.promoter_tick(tick)

    def promoter_lock_outcome(self, outcome: LockOutcome) -> None:
        """Passed on."""
        self._inner.promoter_lock_outcome(outcome)


class Rate:
    """Jobs per second over the last few seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque([(monotonic(), 0)])

    def of(self, total: int) -> float:
        """The rate, when `total` are done now."""
        now = monotonic()
        self._seen.append((now, total))
        while len(self._seen) > 2 and now - self._seen[1][0] > _RATE_OVER_S:
            self._seen.popleft()
        since, before = self._seen[0]
        return (total - before) / max(now - since, 0.001)


class StatusLine(logging.Handler):
    """A line that is redrawn in place on a terminal; log lines go above it."""

    def __init__(self, out: TextIO | None = None) -> None:
        super().__init__()
        self._out = out or sys.stderr
        self.shown = self._out.isatty()
        self._text = ""

    def draw(self, text: str) -> None:
        """Replaces the line."""
        if self.shown:
            # Read each time, since windows are resized. A line that wraps could not be overdrawn.
            self._text = text[: max(20, os.get_terminal_size(self._out.fileno()).columns - 1)]
            self._out.write(f"\r\x1b[K{self._text}")
            self._out.flush()

    def say(self, text: str) -> None:
        """Writes a line above."""
        if self.shown:
            self._out.write(f"\r\x1b[K{text}\n{self._text}")
        else:
            self._out.write(f"{text}\n")
        self._out.flush()

    def clear(self) -> None:
        """Removes the line."""
        self.draw("")

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record above the line."""
        self.say(self.format(record))


async def pass_on(stream: asyncio.StreamReader, say: Callable[[str], None]) -> None:
    """Passes on the output of a process in whole lines, however long they are."""
    begun = b""
    while data := await stream.read(_CHUNK):
        whole, newline, begun = (begun + data).rpartition(b"\n")
        if newline:
            say(whole.decode(errors="replace"))
    if begun:
        say(begun.decode(errors="replace"))


class _Above(io.TextIOBase):
    """A stream that prints above a line; an incomplete line waits for its end."""

    def __init__(self, line: StatusLine) -> None:
        super().__init__()
        self._line = line
        self._begun = ""

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Shows the whole lines."""
        *whole, self._begun = (self._begun + text).split("\n")
        if whole:
            self._line.say("\n".join(whole))
        return len(text)

    def end(self) -> None:
        """Shows the rest."""
        if self._begun:
            self.write("\n")


@contextlib.contextmanager
def printing_above(line: StatusLine) -> Iterator[None]:
    """While the line is shown, what handlers print to the same terminal goes above it."""
    out, errors = _Above(line), _Above(line)
    with contextlib.ExitStack() as redirected:
        if line.shown and sys.stdout.isatty():
            redirected.enter_context(contextlib.redirect_stdout(out))
        if line.shown:
            redirected.enter_context(contextlib.redirect_stderr(errors))
        yield
    out.end()
    errors.end()


def worker_line(queue: str, numbers: Numbers, rate: float, up_s: float, state: str) -> str:
    """The text of the line."""
    counts = f"{numbers.done:,} done · {numbers.failed:,} failed · {numbers.dead:,} dead · {rate:,.0f}/s"
    return f"{queue} │ {counts} │ {state} │ up {ago(up_s * 1000)}"
