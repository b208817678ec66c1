"""Gold's answers and the report's once more, in plain Python over the windows of a plain pass."""

from __future__ import annotations

from typing import Any

from tests.spark.integration.pipeline.plain_pass import COUNTS, quantile

Cell = dict[str, Any]
Line = tuple[str, str]
"""A scope, "name" or "queue", and a name."""
Windows = dict[tuple[str, int], Cell]
RANKS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
COMPARED = ("throughput_per_s", "failure_rate", "latency_p95_ms", "handler_p95_ms")
AT_LEAST = ("success_rate", "throughput_per_s")


def put_together(cells: list[Cell]) -> Cell:
    """Counts added up, and everything that was measured."""
    found = {count: sum(cell[count] for cell in cells) for count in COUNTS}
    return found | {what: [v for cell in cells for v in cell[what]] for what in ("latencies", "handlers")}


def answers(cell: Cell, seconds: float) -> Cell:
    finished = cell["completed"] + cell["failed"]
    found = {count: cell[count] for count in COUNTS} | {"throughput_per_s": cell["completed"] / seconds}
    rates = {"success": "completed", "failure": "failed", "retry": "retried", "dead": "dead"}
    found |= {f"{rate}_rate": cell[count] / finished if finished else None for rate, count in rates.items()}
    for label, rank in RANKS.items():
        handler = quantile(cell["handlers"], rank)
        found[f"latency_{label}_ms"] = quantile(cell["latencies"], rank)
        found[f"handler_{label}_ms"] = None if handler is None else handler / 1000
    return found


def metrics(windows: Windows, window_s: int) -> dict[Line, dict[int, Cell]]:
    """The answers of each name and of the whole, by the second in which a window began."""
    lines: dict[Line, dict[int, Cell]] = {}
    for (name, start), cell in windows.items():
        lines.setdefault(("name", name), {})[start] = cell
    for start in {start for _, start in windows}:
        lines.setdefault(("queue", ""), {})[start] = put_together(
            [cell for (_, at), cell in windows.items() if at == start]
        )
    return {line: _over_time(cells, window_s) for line, cells in lines.items()}


def _over_time(cells: dict[int, Cell], window_s: int) -> dict[int, Cell]:
    found: dict[int, Cell] = {}
    backlog = 0
    for start in sorted(cells):
        row = answers(cells[start], window_s)
        backlog += row["arrived"] - row["departed"]
        row["backlog"] = backlog
        before = found.get(start - window_s, {})
        for what in COMPARED:
            here, there = row[what], before.get(what)
            if what == "throughput_per_s" and found:
                there = there or 0
            row[f"{what}_change"] = None if here is None or there is None else here - there
        found[start] = row
    return found


def judged(lines: dict[Line, dict[int, Cell]], slos: list[dict[str, Any]], window_s: int, now_s: float) -> list[Cell]:
    """Of each window, each promise that it was judged by."""
    found = []
    for slo in slos:
        name = slo.get("name")
        for metric in slo.keys() - {"queue", "name", "min_finished"}:
            for start, row in lines.get(("name", name) if name else ("queue", ""), {}).items():
                value = row[metric]
                finished = row["completed"] + row["failed"]
                enough = metric in ("backlog", "throughput_per_s") or finished >= slo.get("min_finished", 1)
                over = metric != "throughput_per_s" or start + window_s <= now_s
                if value is not None and enough and over:
                    kept = value >= slo[metric] if metric in AT_LEAST else value <= slo[metric]
                    found.append({"name": name, "metric": metric, "start": start, "value": value, "kept": kept})
    return found


def totals(windows: Windows, window_s: int, name: str | None = None) -> Cell:
    """The answers over all windows of the queue, or of one name."""
    starts = [start for _, start in windows]
    cells = [cell for (of, _), cell in windows.items() if name in (None, of)]
    return answers(put_together(cells), max(starts) - min(starts) + window_s)


def ranking(windows: Windows, window_s: int, what: str) -> list[str]:
    """Names, those with the most of something first; without those that have none."""
    found = {name: totals(windows, window_s, name)[what] for name, _ in windows}
    return sorted((name for name, value in found.items() if value), key=lambda name: -found[name])
