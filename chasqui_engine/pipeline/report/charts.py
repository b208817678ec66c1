"""Line and bar charts over time: the coordinates that `chart.svg` draws. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chasqui_engine.pipeline.report.formatting import short_count

WIDTH, HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 12, 14, 26
_INNER = WIDTH - _LEFT - _RIGHT
_TICKS = 4
_MOST_LABELS = 7
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
_MOST_DOTS = 60
_THINNEST = 1.0

Show = Callable[[float], str]
"""How a value is written."""


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis of windows. Windows without events leave a gap."""

    starts: Sequence[int]
    """When each began, in seconds."""
    window_s: int
    labels: Sequence[str]

    @property
    def step(self) -> float:
        """How wide a window is."""
        return _INNER * self.window_s / self._span

    def x(self, n: int) -> float:
        """The middle of a window."""
        return _LEFT + _INNER * (self.starts[n] - self.starts[0] + self.window_s / 2) / self._span

    def follows(self, n: int) -> bool:
        """Whether a window directly follows the previous one."""
        return n > 0 and self.starts[n] - self.starts[n - 1] == self.window_s

    @property
    def _span(self) -> int:
        return self.starts[-1] - self.starts[0] + self.window_s if self.starts else self.window_s


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart; None where there is nothing to show."""

    label: str
    colour: str
    """The name of one of the page's colours."""
    values: Sequence[float | None]


class Mark(NamedTuple):
    """A label of an axis."""

    at: float
    text: str


class Line(NamedTuple):
    """A segment of a series, as the `d` of an SVG path."""

    colour: str
    path: str


class Dot(NamedTuple):
    """One value of a line."""

    x: float
    y: float
    colour: str
    title: str


class Bar(NamedTuple):
    """One value of a bar chart."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All elements, in the coordinates of the drawing."""

    label: str
    ticks: Sequence[Mark]
    labels: Sequence[Mark]
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    dots: Sequence[Dot] = ()
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT


def line_chart(axis: Axis, series: Sequence[Series], show: Show = short_count) -> Chart:
    """Lines over windows; each point has its value as a title."""
    top = nice_top(max((v for one in series for v in one.values if v is not None), default=0.0))
    lines = [Line(one.colour, path) for one in series for path in _paths(axis, one.values, top)]
    dots = [
        Dot(axis.x(n), _y(value, top), one.colour, f"{axis.labels[n]}: {one.label} {show(value)}")
        for one in series
        for n, value in enumerate(one.values)
        if value is not None and len(axis.starts) <= _MOST_DOTS
    ]
    return Chart(label=_label(series), ticks=_ticks(top, show), labels=_labels(axis), lines=lines, dots=dots)


def bar_chart(axis: Axis, series: Sequence[Series], show: Show = short_count) -> Chart:
    """Bars over windows, one on top of the other."""
    sums = [sum(one.values[n] or 0 for one in series) for n in range(len(axis.starts))]
    top = nice_top(max(sums, default=0.0))
    width = max(_THINNEST, axis.step * 0.76)
    bars = []
    for n, label in enumerate(axis.labels):
        base = 0.0
        for one in series:
            value = one.values[n] or 0
            if value:
                upper, lower = _y(base + value, top), _y(base, top)
                title = f"{label}: {one.label} {show(value)}"
                bars.append(Bar(axis.x(n) - width / 2, upper, width, lower - upper, one.colour, title))
                base += value
    return Chart(label=_label(series), ticks=_ticks(top, show), labels=_labels(axis), bars=bars)


def nice_top(most: float) -> float:
    """A round number at or above `most`, whose quarters are round as well."""
    if most <= 0:
        return 1.0
    scale = 10 ** math.floor(math.log10(most))
    return next(float(step * scale) for step in _STEPS if step * scale >= most * 0.9999)


def _paths(axis: Axis, values: Sequence[float | None], top: float) -> list[str]:
    """A path for each segment of windows without a gap; a single value gets a dot."""
    stretches: list[list[str]] = []
    goes_on = False
    for n, value in enumerate(values):
        if value is None:
            goes_on = False
            continue
        if not (goes_on and axis.follows(n)):
            stretches.append([])
        stretches[-1].append(f"{axis.x(n):.1f},{_y(value, top):.1f}")
        goes_on = True
    return ["M" + " L".join(points) + ("" if len(points) > 1 else " h0.01") for points in stretches]


def _ticks(top: float, show: Show) -> list[Mark]:
    values = [top * tick / _TICKS for tick in range(_TICKS + 1)]
    return [Mark(_y(value, top), show(value)) for value in values]


def _labels(axis: Axis) -> list[Mark]:
    marks: list[Mark] = []
    free_from = -math.inf
    for n, label in enumerate(axis.labels):
        x = axis.x(n)
        if x >= free_from:
            free_from = x + _INNER / _MOST_LABELS
            marks.append(Mark(x, label))
    return marks


def _label(series: Sequence[Series]) -> str:
    return ", ".join(one.label for one in series)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM)
