"""The shape of a scenario."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.bench import Bench
from benchmarks.peers.peer import Work

RATE = "jobs/s"


def more_is_better(unit: str) -> bool:
    """Whether a larger figure of this unit wins."""
    return unit == RATE


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is done, with how many jobs, and how to measure it."""

    name: str
    what: str
    jobs: int
    quick_jobs: int | None
    """None: not part of a quick run, unless asked for."""
    measure: Callable[[Bench], Awaitable[dict[str, float]]]
    """Gives a figure for each of `rows`."""
    work: Work = field(default_factory=Work)
    units: Mapping[str, str] = field(default_factory=dict)
    """Row of the table → its unit; left out, one row of the scenario's name in jobs per second."""
    most_repeats: int = 1000
    """Where a figure hardly varies, and takes long."""

    @property
    def rows(self) -> Mapping[str, str]:
        return self.units or {self.name: RATE}
