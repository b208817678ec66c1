"""The figures as tables for the terminal and README.md, and the cost of a row as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import README
from benchmarks.spark import beside, ratios, scale

IMAGE = Path(__file__).parents[2] / "docs" / "img" / "spark-cost-per-row.svg"

_STEPS = {
    "write": ("rows into the queue, fenced", "rows"),
    "work": ("worked off, events on", "jobs"),
    "read": ("events read", "events"),
    "bronze": ("bronze", "events"),
    "silver": ("silver", "events"),
    "gold": ("gold", "events"),
    "report": ("report", "events"),
    "pipeline": ("the pipeline as a whole", "events"),
}


def ratios_table(found: dict[str, Any]) -> str:
    read, written = found["read"], found["write"]
    unfenced = written["unfenced"] / written["foreachPartition"]
    return "\n".join(
        [
            "| | rows/s | ratio |",
            "| --- | ---: | ---: |",
            f"| read: ours | {read['ours']:,} | **{read['ratio']:.2f} ×** |",
            f"| read: tuples from a redis client | {read['tuples']:,} | 1 |",
            f"| write: ours, fenced | {written['fenced']:,} | **{written['ratio']:.2f} ×** |",
            f"| write: ours, `fence=none` | {written['unfenced']:,} | {unfenced:.2f} × |",
            f"| write: `foreachPartition` with a client's pipeline | {written['foreachPartition']:,} | 1 |",
            "",
            *_verdicts(ratios.verdicts(found)),
            "",
            f"{found['rows']:,} rows, median of {found['repeat']} in turns; {_where(found)}",
        ]
    )


def beside_table(found: dict[str, Any]) -> str:
    shared = (
        f"Ours is one run after a warm-up, theirs the best of three. Load {found['load']} at its end: where that is "
        "more than there are cores, the machine was shared, and these seconds say little; measure on a quiet one."
    )
    return "\n".join([*beside.table(found), "", *_verdicts(beside.verdicts(found)), "", shared, _where(found)])


def scale_table(found: dict[str, Any]) -> str:
    sizes = found["sizes"]
    lines = [
        f"| step | {' | '.join('{:,} rows'.format(size['rows']) for size in sizes)} |",
        f"| --- |{' ---: |' * len(sizes)}",
    ]
    for step, (label, unit) in _STEPS.items():
        cells = [_cell(size, step, unit) for size in sizes]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    peaks = ", ".join(f"{name} {mb:,} MB" for name, mb in found["peak_mb"].items())
    events = ", ".join(f"{size['events']:,}" for size in sizes)
    return "\n".join(
        [
            *lines,
            "",
            f"Events: {events}.",
            "",
            f"Peak memory: {peaks}; {found['driver_memory']} of heap for the driver, {found['workers']} workers.",
            "",
            *_verdicts(scale.verdicts(found)),
            "",
            _where(found),
            "",
            f"![What a row costs, by the number of rows](../docs/img/{IMAGE.name})",
        ]
    )


def _cell(size: dict[str, Any], step: str, unit: str) -> str:
    seconds = size["seconds"][step]
    count = size["rows"] if unit in ("rows", "jobs") else size["events"]
    if step == "report":
        return f"{seconds:.1f} s"
    return f"{seconds:,.1f} s, {count / seconds:,.0f} {unit}/s, {size['us_per_row'][step]:.1f} µs"


def _verdicts(told: dict[str, bool]) -> Iterator[str]:
    return (f"- {'held' if held else '**missed**'}: {text}" for text, held in told.items())


def _where(found: dict[str, Any]) -> str:
    return f"{found['server']}; {found['machine']}; Spark {found['spark']}; {found['taken']}."


def fill_readme(mark: str, table: str) -> None:
    """Puts a table between its two marks."""
    begin, end = f"<!-- spark {mark} -->\n", f"<!-- end spark {mark} -->"
    before, found, rest = README.read_text().partition(begin)
    if not found or end not in rest:
        raise SystemExit(f"{README} has no place for it: {begin.strip()} … {end}")
    README.write_text(f"{before}{begin}\n{table}\n\n{end}{rest.partition(end)[2]}")


_LEFT, _TOP, _WIDTH, _HEIGHT = 60, 48, 560, 240
_LINES = {"write": "one", "read": "two", "work": "three", "pipeline": "four"}
# The picture has no ground of its own, and the colours follow the reader's light or dark page.
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f } .small { font-size: 11px } .soft { fill: #57606a }
.end { text-anchor: end } .middle { text-anchor: middle } .grid { stroke: #d0d7de }
path { fill: none; stroke: currentColor; stroke-width: 2.5; stroke-linejoin: round } circle { fill: currentColor }
.one { color: #c2410c } .two { color: #2f6fb2 } .three { color: #2e8b57 } .four { color: #8a5cc2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .soft { fill: #9198a1 } .grid { stroke: #30363d }
  .one { color: #fb923c } .two { color: #6ba6e6 } .three { color: #5cc08a } .four { color: #b491ea }
}
"""


def draw(found: dict[str, Any]) -> Path:
    """Writes the picture: microseconds per row against the number of rows, both logarithmic."""
    IMAGE.parent.mkdir(parents=True, exist_ok=True)
    IMAGE.write_text(as_svg(found["sizes"]))
    return IMAGE


def as_svg(sizes: list[dict[str, Any]]) -> str:
    costs = [size["us_per_row"][what] for size in sizes for what in _LINES]
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))
    height = _TOP + _HEIGHT + 44

    def x(n: int) -> float:
        return _LEFT + 40 + n * (_WIDTH - 80) / max(1, len(sizes) - 1)

    def y(cost: float) -> float:
        return _TOP + _HEIGHT * (high - math.log10(cost)) / max(1, high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 170} {height}" role="img">',
        "<title>What a row costs, by the number of rows</title>",
        f"<style>{_STYLE}</style>",
        '<text x="0" y="18">What one row, job or event costs, in microseconds (logarithmic)</text>',
    ]
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="small soft end" x="{_LEFT - 8}" y="{at + 4:.1f}">{10.0**power:g} µs</text>')
    for n, size in enumerate(sizes):
        parts.append(f'<text class="small soft middle" x="{x(n):.1f}" y="{height - 22}">{size["rows"]:,} rows</text>')
    labels: list[float] = []
    for what, colour in sorted(_LINES.items(), key=lambda line: sizes[-1]["us_per_row"][line[0]]):
        points = [(x(n), y(size["us_per_row"][what]), size["us_per_row"][what]) for n, size in enumerate(sizes)]
        parts.append(f'<path class="{colour}" d="M{" L".join(f"{px:.1f},{py:.1f}" for px, py, _ in points)}"/>')
        for px, py, cost in points:
            parts.append(
                f'<circle class="{colour}" cx="{px:.1f}" cy="{py:.1f}" r="4"><title>{cost:.2f} µs</title></circle>'
            )
        # Lines that end close to each other share the room for their names.
        label = min([points[-1][1], *(at - 16 for at in labels)])
        labels.append(label)
        parts.append(
            f'<text class="small" x="{_LEFT + _WIDTH - 24}" y="{label + 4:.1f}">{_STEPS[what][0].partition(",")[0]}, '
            f"{points[-1][2]:.1f} µs</text>"
        )
    return "\n".join([*parts, "</svg>", ""])
