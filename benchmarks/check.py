"""The regression check: the ratios of a run against those that were saved last."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Results, load

TOLERANCE = 0.3
"""Ratios of a quick run on a machine that does other things as well differ by a quarter from one run to the next."""


@dataclass(frozen=True)
class Shortfall:
    """A ratio that is too far below the saved one."""

    scenario: str
    row: str
    contestant: str
    saved: float
    now: float

    def __str__(self) -> str:
        change = self.now / self.saved - 1
        return f"SLOWER: {self.row} to {self.contestant}: {self.now:.2f} ×, was {self.saved:.2f} × ({change:+.0%})"


def shortfalls(results: Results, saved_in: Path, tolerance: float) -> list[Shortfall]:
    """What fell by more than `tolerance`, of what both have measured. A contestant that failed has no ratio."""
    saved = load(saved_in)
    found = []
    for name, measured in results.scenarios.items():
        if name not in saved.scenarios:
            continue
        now = {(row, who): ratio for row, who, ratio in measured.ratios(results.baseline)}
        for row, who, before in saved.scenarios[name].ratios(saved.baseline):
            if who in measured.jobs or results.baseline in measured.failed:
                ratio = now.get((row, who), 0.0)
                if ratio < before * (1 - tolerance):
                    found.append(Shortfall(name, row, who, before, ratio))
    return found
