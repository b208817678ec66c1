"""Line and bar charts over time as SVG text: no script, no files, colours from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 14, 26
_INNER = WIDTH - _LEFT - _RIGHT
_TICKS = 4
_MOST_LABELS = 7
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
_MOST_DOTS = 60
_THINNEST = 1.0


@dataclass(frozen=True, slots=True)
class Axis:
    """Windows in time. Those in which nothing was heard are not among them, and leave their room empty."""

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
        """Whether a window is the one directly after the one before it here."""
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


def line_chart(axis: Axis, series: Sequence[Series], unit: str) -> str:
    """Lines over windows; each point tells its value when pointed at."""
    top = nice_top(max((v for one in series for v in one.values if v is not None), default=0.0))
    parts = [_frame(axis, top)]
    for one in series:
        points = [(axis.x(n), _y(v, top), v) for n, v in enumerate(one.values) if v is not None]
        parts += [
            f'<path class="line" style="stroke:var(--{one.colour})" d="{path}"/>'
            for path in _paths(axis, one.values, top)
        ]
        if len(axis.starts) <= _MOST_DOTS:
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill:var(--{one.colour})"><title>'
                f"{escape(one.label)} {_figure(v)} {escape(unit)}</title></circle>"
                for x, y, v in points
            ]
    return _svg(parts, ", ".join(one.label for one in series))


def bar_chart(axis: Axis, series: Sequence[Series], unit: str) -> str:
    """Bars over windows, one on top of the other."""
    sums = [sum(one.values[n] or 0 for one in series) for n in range(len(axis.starts))]
    top = nice_top(max(sums, default=0.0))
    parts = [_frame(axis, top)]
    width = max(_THINNEST, axis.step * 0.76)
    for n, label in enumerate(axis.labels):
        base = 0.0
        for one in series:
            value = one.values[n] or 0
            if value:
                upper, lower = _y(base + value, top), _y(base, top)
                parts.append(
                    f'<rect x="{axis.x(n) - width / 2:.1f}" y="{upper:.1f}" width="{width:.1f}" '
                    f'height="{lower - upper:.1f}" style="fill:var(--{one.colour})"><title>{escape(label)}: '
                    f"{escape(one.label)} {_figure(value)} {escape(unit)}</title></rect>"
                )
                base += value
    return _svg(parts, ", ".join(one.label for one in series))


def nice_top(most: float) -> float:
    """A round number at or above `most`, whose quarters are round as well."""
    if most <= 0:
        return 1.0
    scale = 10 ** math.floor(math.log10(most))
    return next(float(step * scale) for step in _STEPS if step * scale >= most * 0.9999)


def _paths(axis: Axis, values: Sequence[float | None], top: float) -> list[str]:
    """A line for each stretch of windows without a gap; a lone value gets a dot."""
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


def _frame(axis: Axis, top: float) -> str:
    parts = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_figure(value)}</text>')
    room_from = -math.inf
    for n, label in enumerate(axis.labels):
        x = axis.x(n)
        if x >= room_from:
            room_from = x + _INNER / _MOST_LABELS
            parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(label)}</text>')
    return "".join(parts)


def _svg(parts: Sequence[str], what: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(what)}">{"".join(parts)}</svg>'


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM)


def _figure(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.4g}k"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
