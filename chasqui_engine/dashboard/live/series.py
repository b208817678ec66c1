"""The events of the last hour, counted in steps that merge into the points of a plot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chasqui_engine import QueueEvent

STEP_MS = 5_000
SPAN_MS = 3_600_000
WINDOWS_MIN = (5, 15, 60)
POINTS = 60
_COUNTED = {"completed": "completed", "failed": "failed", "dlq": "dead"}
_FACTOR = math.log(1.2)
"""Durations are kept to within a tenth: in buckets that grow by a fifth, each shown as its middle."""
_SHORTEST_STEP_MS = 2_000


@dataclass(slots=True)
class _Step:
    counts: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)


class Series:
    """Counts and durations per step. Bounded: an hour of steps, however many events."""

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        """The time since which all events are counted."""
        self.estimated = False
        """Whether some steps are extrapolated because there were more events than could be read."""
        self._steps: dict[int, _Step] = {}

    def add(self, events: Sequence[QueueEvent], weight: float = 1.0) -> None:
        """Counts events, each as `weight` events."""
        for event in events:
            kind = _COUNTED.get(event.name)
            if kind is None:
                continue
            step = self._steps.setdefault(event.at_ms // STEP_MS, _Step())
            step.counts[kind] += weight  # type: ignore[assignment]
            duration_us = event.fields.get("duration_us")
            if isinstance(duration_us, int) and duration_us >= 0:
                step.durations[int(math.log(max(1, duration_us)) / _FACTOR)] += 1

    def forget_before(self, ms: int) -> None:
        """Drops the steps before the last hour."""
        for number in [number for number in self._steps if (number + 1) * STEP_MS <= ms]:
            del self._steps[number]
        self.since_ms = max(self.since_ms, ms)

    def points(self, now_ms: int, minutes: int) -> dict[str, Any]:
        """The last minutes in equal steps, the oldest first: jobs per second, and how long handlers took."""
        width = max(1, minutes * 60_000 // POINTS // STEP_MS)
        # A step that has just begun would look like a sudden drop.
        last = (now_ms - _SHORTEST_STEP_MS) // STEP_MS // width
        first = last - POINTS + 1
        merged = [self._merge(number * width, width) for number in range(first, last + 1)]
        lengths_s = [width * STEP_MS / 1000] * POINTS
        lengths_s[-1] = min(lengths_s[-1], (now_ms - last * width * STEP_MS) / 1000)
        rates = {
            kind: [round(step.counts[kind] / length, 3) for step, length in zip(merged, lengths_s, strict=True)]
            for kind in _COUNTED.values()
        }
        return {
            "start_ms": first * width * STEP_MS,
            "step_ms": width * STEP_MS,
            "since_ms": self.since_ms,
            "estimated": self.estimated,
            **rates,
            "p50_ms": [_quantile_ms(step.durations, 0.5) for step in merged],
            "p95_ms": [_quantile_ms(step.durations, 0.95) for step in merged],
            "p99_ms": [_quantile_ms(step.durations, 0.99) for step in merged],
        }

    def _merge(self, first: int, width: int) -> _Step:
        merged = _Step()
        for number in range(first, first + width):
            if (step := self._steps.get(number)) is not None:
                merged.counts.update(step.counts)
                merged.durations.update(step.durations)
        return merged


def _quantile_ms(durations: Counter[int], share: float) -> float | None:
    wanted = math.ceil(durations.total() * share)
    for number in sorted(durations):
        wanted -= durations[number]
        if wanted <= 0:
            return round(math.exp((number + 0.5) * _FACTOR) / 1000, 3)
    return None
