"""The ratios as a picture for the README: `python -m benchmarks.plot` draws it again from the saved results."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from benchmarks import redis_benchmark
from benchmarks.peers import RIVAL
from benchmarks.results import Results, load, path_of

IMAGE = Path(__file__).parent.parent / "docs" / "img" / "benchmark-ratios.svg"

_LEFT, _WIDTH, _ROW, _TOP, _MARGIN = 190, 640, 26, 64, 70
_FLOOR, _TICKS = 0.5, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
# The picture has no ground of its own, and the colours follow the reader's light or dark page.
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.small { font-size: 11px } .soft { fill: #57606a } .end { text-anchor: end } .middle { text-anchor: middle }
.grid { stroke: #d0d7de } .one { stroke: #57606a; stroke-width: 1.5 }
.bar { fill: #c2410c } .dot { fill: #57606a; fill-opacity: .55 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9198a1 } .grid { stroke: #30363d } .one { stroke: #9198a1 }
  .bar { fill: #fb923c } .dot { fill: #9198a1; fill-opacity: .7 }
}
"""


def draw(results: Results) -> Path:
    """Writes the picture; returns where."""
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    IMAGE.write_text(as_svg(results))
    return IMAGE


def as_svg(results: Results) -> str:
    """A bar per scenario for the ratio to ChasquiMQ, a dot for each of the other peers, on a logarithmic scale."""
    rows = _rows(results)
    every = [ratio for ratios in rows.values() for ratio in ratios.values()]
    most = next((tick for tick in _TICKS if tick >= max(every, default=1)), _TICKS[-1])
    height = _TOP + _ROW * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _MARGIN} {height}" role="img">',
        "<title>How many times better Chasqui is than its peers, by scenario</title>",
        f"<style>{_STYLE}</style>",
        *_legend(),
        *_grid(most, height),
    ]
    for number, (row, ratios) in enumerate(rows.items()):
        parts += _bar(row, ratios, _TOP + _ROW * number, most)
    return "\n".join([*parts, "</svg>", ""])


def _rows(results: Results) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for name, measured in results.scenarios.items():
        if name != redis_benchmark.NAME:
            for row, who, ratio in measured.ratios(results.baseline):
                rows.setdefault(row, {})[who] = ratio
    return rows


def _x(ratio: float, most: float) -> float:
    span = math.log(most / _FLOOR)
    return _LEFT + _WIDTH * math.log(min(max(ratio, _FLOOR), most) / _FLOOR) / span


def _legend() -> Iterator[str]:
    yield '<text x="0" y="16">How many times better Chasqui is (logarithmic; right of 1 × it is ahead)</text>'
    yield f'<rect class="bar" x="{_LEFT}" y="28" width="18" height="12" rx="2"/>'
    yield f'<text class="small soft" x="{_LEFT + 24}" y="38">than {RIVAL}, the Rust engine</text>'
    yield f'<circle class="dot" cx="{_LEFT + 245}" cy="34" r="4"/>'
    yield f'<text class="small soft" x="{_LEFT + 255}" y="38">than each other peer</text>'


def _grid(most: float, height: int) -> Iterator[str]:
    bottom = height - 22
    for tick in _TICKS:
        if tick <= most:
            x = _x(tick, most)
            style = "one" if tick == 1 else "grid"
            yield f'<line class="{style}" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 10}" y2="{bottom}"/>'
            yield f'<text class="small soft middle" x="{x:.1f}" y="{bottom + 15}">{tick} ×</text>'


def _bar(row: str, ratios: dict[str, float], y: int, most: float) -> Iterator[str]:
    yield f'<text class="end" x="{_LEFT - 14}" y="{y + 15}">{row}</text>'
    if RIVAL in ratios:
        one, end = _x(1, most), _x(ratios[RIVAL], most)
        x, width = min(one, end), max(abs(end - one), 1.5)
        yield f'<rect class="bar" x="{x:.1f}" y="{y + 4}" width="{width:.1f}" height="14" rx="2">'
        yield f"<title>{row}: {ratios[RIVAL]:.2f} × {RIVAL}</title></rect>"
    for who, ratio in ratios.items():
        if who != RIVAL:
            yield f'<circle class="dot" cx="{_x(ratio, most):.1f}" cy="{y + 11}" r="4">'
            yield f"<title>{row}: {ratio:.1f} × {who}</title></circle>"
    if RIVAL in ratios:
        yield f'<text class="small" x="{_LEFT + _WIDTH + 10}" y="{y + 15}">{ratios[RIVAL]:.1f} ×</text>'


if __name__ == "__main__":
    print(draw(load(path_of("redis8.6", quick=False))))
