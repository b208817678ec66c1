"""The table of queues, as wide as the terminal: columns give way, queue names do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from chasqui_engine.admin import QueueSnapshot
from chasqui_engine.cli.output.formatting import ago, sparkline
from chasqui_engine.cli.output.terminal import style_text

if TYPE_CHECKING:
    from rich.console import RenderableType

DEPTH, DONE = "depth over time", "done over time"
"""Columns of plots."""
_FRAME = 3
"""What a column needs besides its text: a space on each side, and a line."""
_NAME_SHARE = 5
"""A name takes up to a fifth of the width, at least `_NAME_WIDTH`; longer names are folded."""
_NAME_WIDTH = 16
_FEWEST_POINTS, _MOST_POINTS = 10, 30
"""Points of a plot; the title of a narrow one takes two lines."""
_BEFORE_WAITING = ("done/s", "prioritized", "delayed", "dead", "active")
_FIRST_TO_GO = (DONE, "buffered", "failed/s", "repeat", "lag", "workers", "oldest", DEPTH, *_BEFORE_WAITING)

_CELLS: dict[str, Callable[[QueueSnapshot], str]] = {
    "waiting": lambda one: f"{one.counts.waiting:,}",
    "prioritized": lambda one: f"{one.counts.prioritized:,}",
    "oldest": lambda one: ago(one.counts.oldest_waiting_ms) if one.counts.waiting else "-",
    "active": lambda one: f"{one.running:,}",
    "buffered": lambda one: f"{one.buffered:,}",
    "workers": lambda one: f"{one.workers:,}",
    "delayed": lambda one: f"{one.counts.delayed:,}",
    "lag": lambda one: ago(one.counts.delayed_lag_ms) if one.counts.delayed_lag_ms else "-",
    "dead": lambda one: f"{one.counts.dead:,}",
    "repeat": lambda one: f"{one.counts.repeatables:,}",
    "done/s": lambda one: f"{one.throughput.completed_per_s:,.1f}",
    "failed/s": lambda one: f"{one.throughput.failed_per_s:,.1f}",
}

Plots = Mapping[str, Mapping[str, Sequence[float]]]
"""By column, then by queue."""


def queue_table(seen: Sequence[QueueSnapshot], width: int, plots: Plots | None = None) -> RenderableType:
    """The queues; below, the columns that did not fit."""
    from rich.console import Group
    from rich.table import Table

    plots = plots or {}
    names = [shown_name(one) for one in seen]
    columns: dict[str, list[str]] = {name: [cell(one) for one in seen] for name, cell in _CELLS.items()}
    if not any(one.counts.prioritized for one in seen):
        del columns["prioritized"]
    columns |= {name: [" " * _FEWEST_POINTS] * len(seen) for name in plots}
    name_width = min(_widest_name(width), max(map(len, ["queue", *names])))
    room = width - 1 - name_width - _FRAME
    left_out = _left_out(columns, room)
    kept = {name: cells for name, cells in columns.items() if name not in left_out}
    spare = room - sum(map(_width, kept, kept.values()))
    points = _points(spare, sum(name in plots for name in kept))
    table = Table(header_style="bold")
    table.add_column("queue", overflow="fold", width=name_width)
    for name, cells in kept.items():
        if name not in plots:
            table.add_column(name, justify="right", no_wrap=True)
        else:
            table.add_column(name, width=points)
            cells[:] = [sparkline(list(plots[name].get(one.name, ()))[-points:]) for one in seen]
    for n, name in enumerate(names):
        table.add_row(name, *(cells[n] for cells in kept.values()))
    if not left_out:
        return table
    return Group(table, style_text(f"not shown: {', '.join(left_out)}; use a wider terminal, or --json", "dim"))


def shown_name(one: QueueSnapshot) -> str:
    """A queue's name, and whether it is paused."""
    return one.name + (" (paused)" if one.counts.paused else "")


def lines_of(one: QueueSnapshot, width: int) -> int:
    """Lines that a queue takes in a table of this width."""
    return -(-len(shown_name(one)) // _widest_name(width))


def _widest_name(width: int) -> int:
    return max(_NAME_WIDTH, width // _NAME_SHARE)


def _left_out(columns: Mapping[str, list[str]], room: int) -> list[str]:
    left_out: list[str] = []
    needed = sum(map(_width, columns, columns.values()))
    for name in _FIRST_TO_GO:
        if needed <= room:
            break
        if name in columns:
            left_out.append(name)
            needed -= _width(name, columns[name])
    return left_out


def _width(name: str, cells: Sequence[str]) -> int:
    title = min(len(name), _FEWEST_POINTS)
    return max(map(len, [name[:title], *cells])) + _FRAME


def _points(spare: int, plots: int) -> int:
    """How many points each plot has room for."""
    return min(_MOST_POINTS, _FEWEST_POINTS + max(0, spare) // plots) if plots else 0
