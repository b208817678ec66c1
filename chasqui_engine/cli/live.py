"""The line at the bottom of a worker's terminal, and the numbers in it."""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from dataclasses import asdict, dataclass
from typing import TextIO

from chasqui_engine.cli.words import ago
from chasqui_engine.clock import monotonic
from chasqui_engine.sink import (
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

_RATE_OVER_S = 5.0


@dataclass(slots=True)
class Numbers:
    """What a worker has done so far."""

    done: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return asdict(self)


class Tally(MetricsSink):
    """Counts what a worker does, and passes it on to another sink."""

    __slots__ = ("_inner", "numbers")

    def __init__(self, inner: MetricsSink | None = None) -> None:
        self.numbers = Numbers()
        self._inner = inner or NoopSink()

    def job_outcome(self, outcome: JobOutcome) -> None:
        """Counts it. So do the others."""
        if outcome.kind is JobOutcomeKind.OK:
            self.numbers.done += 1
        else:
            self.numbers.failed += 1
        self._inner.job_outcome(outcome)

    def retry_scheduled(self, retry: RetryScheduled) -> None:
        """A retry."""
        self.numbers.retried += 1
        self._inner.retry_scheduled(retry)

    def dlq_routed(self, dlq: DlqRouted) -> None:
        """A burial."""
        self.numbers.dead += 1
        self._inner.dlq_routed(dlq)

    def reader_batch(self, batch: ReaderBatch) -> None:
        """Passed on. So are the others."""
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
        """The rate, now that `total` are done."""
        now = monotonic()
        self._seen.append((now, total))
        while len(self._seen) > 2 and now - self._seen[1][0] > _RATE_OVER_S:
            self._seen.popleft()
        since, before = self._seen[0]
        return (total - before) / max(now - since, 0.001)


class LiveLine(logging.Handler):
    """One line that is drawn again and again on a terminal; what is logged goes above it."""

    def __init__(self, out: TextIO | None = None) -> None:
        super().__init__()
        self._out = out or sys.stderr
        self.shown = self._out.isatty()
        self._text = ""

    def draw(self, text: str) -> None:
        """Shows this in place of what was there."""
        if self.shown:
            # Asked each time: windows change their size. A line that wraps could not be drawn over.
            self._text = text[: max(20, os.get_terminal_size(self._out.fileno()).columns - 1)]
            self._out.write(f"\r\x1b[K{self._text}")
            self._out.flush()

    def say(self, text: str) -> None:
        """A line of its own, that stays."""
        if self.shown:
            self._out.write(f"\r\x1b[K{text}\n{self._text}")
        else:
            self._out.write(f"{text}\n")
        self._out.flush()

    def clear(self) -> None:
        """Takes the line away."""
        self.draw("")

    def emit(self, record: logging.LogRecord) -> None:
        """Above the line."""
        self.say(self.format(record))


def worker_line(queue: str, numbers: Numbers, rate: float, up_s: float, stands: str) -> str:
    """What a worker is at."""
    told = f"{numbers.done:,} done · {numbers.failed:,} failed · {numbers.dead:,} dead · {rate:,.0f}/s"
    return f"{queue} │ {told} │ {stands} │ up {ago(up_s * 1000)}"
