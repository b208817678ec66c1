"""Numbers as people write them: whole counts with separators, times with a unit that fits, never an exponent."""

from __future__ import annotations

import math

NONE = "–"
_UNITS = ((3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s"), (1.0, "ms"))
_ROUNDS_UP = 0.9995
"""From this part of a unit on, it is rounded up to one: 999.7 ms is 1 s."""


def significant(value: float, digits: int = 3) -> str:
    """A number with this many significant digits, or all digits before the point."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else NONE
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: int | None) -> str:
    """1,234"""
    return NONE if value is None else f"{value:,}"


def short_count(value: float) -> str:
    """1,234, and 12.3k from ten thousand on: for the axis of a chart."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10_000 and value >= size:
            return f"{significant(value / size)}{letter}"
    return significant(value)


def share(value: float | None) -> str:
    """96.4 %"""
    return NONE if value is None else f"{significant(round(value * 100, 1), 4)} %"


def duration(ms: float | None) -> str:
    """120 ms, 2.99 s, 3.5 min"""
    if ms is None:
        return NONE
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(ms) >= size * _ROUNDS_UP), _UNITS[-1])
    return f"{significant(ms / size)} {unit}"


def window_length(seconds: int) -> str:
    """5 min"""
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def measure(value: float, metric: str) -> str:
    """The value of a metric, as an SLO names it."""
    if metric.endswith("_rate"):
        # An objective of 99.95 % must not show as 100 %.
        return f"{significant(value * 100, 5)} %"
    if metric.endswith("_ms"):
        return duration(value)
    return f"{significant(value)}/s" if metric == "throughput_per_s" else significant(value)


def add_sign(value: float, text: str) -> str:
    """The text of a change, with the sign of its value."""
    return f"{'+' if value > 0 else '−'}{text}"
