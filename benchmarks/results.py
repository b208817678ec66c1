"""The figures of a run: what is saved, and what is read off it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.scenarios.scenario import more_is_better

FOLDER = Path(__file__).parent / "results"


@dataclass(kw_only=True)
class Measured:
    """One scenario: figures of all repeats by row and contestant, and who is missing and why."""

    what: str
    units: dict[str, str]
    taken: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    figures: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    ran_again: dict[str, int] = field(default_factory=dict)
    """Runs of all repeats beyond one per job."""
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def note(self, contestant: str, answer: dict[str, Any]) -> None:
        """Takes in what `benchmarks.measure` printed."""
        if "left_out" in answer:
            self.left_out[contestant] = answer["left_out"]
        elif "failed" in answer:
            self.failed[contestant] = answer["failed"]
        else:
            self.jobs[contestant] = answer["jobs"]
            self.ran_again[contestant] = self.ran_again.get(contestant, 0) + answer.get("ran_again", 0)
            for row, figure in answer["figures"].items():
                self.figures.setdefault(row, {}).setdefault(contestant, []).append(figure)

    def figure(self, row: str, contestant: str) -> float | None:
        """The median of the repeats."""
        taken = self.figures.get(row, {}).get(contestant)
        return median(taken) if taken else None

    def ratio(self, row: str, baseline: str, contestant: str) -> float | None:
        """How many times better the baseline is: above 1 it is ahead, whether more or less is better."""
        ours, theirs = self.figure(row, baseline), self.figure(row, contestant)
        if not ours or not theirs:
            return None
        return ours / theirs if more_is_better(self.units[row]) else theirs / ours

    def ratios(self, baseline: str) -> Iterator[tuple[str, str, float]]:
        """(row, contestant, ratio) of all that were measured."""
        for row, figures in self.figures.items():
            for contestant in figures:
                ratio = self.ratio(row, baseline, contestant)
                if contestant != baseline and ratio is not None:
                    yield row, contestant, ratio


@dataclass(kw_only=True)
class Results:
    """A run, or several runs of single scenarios on one machine and server."""

    server: str
    baseline: str
    quick: bool
    repeat: int
    machine: str
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    scenarios: dict[str, Measured] = field(default_factory=dict)

    @property
    def contestants(self) -> list[str]:
        """All of them, the baseline first."""
        every = dict.fromkeys([self.baseline])
        for measured in self.scenarios.values():
            every |= dict.fromkeys([*measured.jobs, *measured.left_out, *measured.failed])
        return list(every)

    def save(self, path: Path) -> None:
        """Writes the scenarios of this run over those of the same names, and keeps the others."""
        if path.exists():
            self.scenarios = load(path).scenarios | self.scenarios
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> Results:
    """What `save` wrote."""
    saved = json.loads(path.read_text())
    scenarios = {name: Measured(**measured) for name, measured in saved.pop("scenarios").items()}
    return Results(**saved, scenarios=scenarios)


def path_of(server: str, *, quick: bool) -> Path:
    """Where the results of this kind of run are kept."""
    return FOLDER / f"{server.replace(',', '-')}{'-quick' if quick else ''}.json"


def this_machine() -> str:
    """Processor, cores, system and Python, in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.processor())
    return (
        f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}"
    )
