"""Line and bar charts as SVG text: no script, no files, colours from the page's style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 14, 26
_TICKS = 4
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
_MOST_DOTS = 60


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart; None where there is nothing to show."""

    label: str
    colour: str
    """The name of one of the page's colours."""
    values: Sequence[float | None]


def line_chart(labels: Sequence[str], series: Sequence[Series], unit: str) -> str:
    """Lines over windows; each point tells its value when pointed at."""
    top = nice_top(max((v for one in series for v in one.values if v is not None), default=0.0))
    parts = [_frame(labels, top)]
    for one in series:
        points = [(_x(n, len(labels)), _y(v, top), v) for n, v in enumerate(one.values) if v is not None]
        parts += [
            f'<path class="line" style="stroke:var(--{one.colour})" d="{path}"/>' for path in _paths(one.values, top)
        ]
        if len(labels) <= _MOST_DOTS:
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" style="fill:var(--{one.colour})"><title>'
                f"{escape(one.label)} {_figure(v)} {escape(unit)}</title></circle>"
                for x, y, v in points
            ]
    return _svg(parts, ", ".join(one.label for one in series))


def bar_chart(labels: Sequence[str], series: Sequence[Series], unit: str) -> str:
    """Bars over windows, one on top of the other."""
    sums = [sum(one.values[n] or 0 for one in series) for n in range(len(labels))]
    top = nice_top(max(sums, default=0.0))
    parts = [_frame(labels, top)]
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(labels))
    for n, label in enumerate(labels):
        base = 0.0
        for one in series:
            value = one.values[n] or 0
            if value:
                upper, lower = _y(base + value, top), _y(base, top)
                parts.append(
                    f'<rect x="{_LEFT + n * step + step * 0.12:.1f}" y="{upper:.1f}" width="{step * 0.76:.1f}" '
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


def _paths(values: Sequence[float | None], top: float) -> list[str]:
    """A line for each stretch of values without a gap; a lone value gets a short one."""
    paths: list[str] = []
    current: list[str] = []
    for n, value in enumerate([*values, None]):
        if value is not None:
            current.append(f"{_x(n, len(values)):.1f},{_y(value, top):.1f}")
        elif current:
            paths.append("M" + " L".join(current))
            current = []
    return paths


def _frame(labels: Sequence[str], top: float) -> str:
    parts = []
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = _y(value, top)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_figure(value)}</text>')
    shown = max(1, math.ceil(len(labels) / 7))
    for n in range(0, len(labels), shown):
        x = _x(n, len(labels))
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(labels[n])}</text>')
    return "".join(parts)


def _svg(parts: Sequence[str], what: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(what)}">{"".join(parts)}</svg>'


def _x(n: int, count: int) -> float:
    return _LEFT + (n + 0.5) * (WIDTH - _LEFT - _RIGHT) / max(1, count)


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - value / top * (HEIGHT - _TOP - _BOTTOM)


def _figure(value: float) -> str:
    if value >= 10_000:
        return f"{value / 1000:,.4g}k"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
