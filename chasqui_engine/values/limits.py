"""The limits of a queue: how many jobs begin in a time, and how many run at once."""

from __future__ import annotations

from dataclasses import dataclass

from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.validation import check_number, check_whole_number

_LONGEST_S = 86_400


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What all workers of a queue keep to together; None is no limit."""

    rate: tuple[int, float] | None = None
    """So many jobs begin per so many seconds; after a rest, as many more at once."""
    concurrency: int | None = None
    """So many jobs are in flight at once in a group."""

    def __post_init__(self) -> None:
        if self.rate is not None:
            if not isinstance(self.rate, tuple) or len(self.rate) != 2:
                raise ConfigError(f"rate must be (jobs, seconds), such as (100, 1), got {self.rate!r}")
            check_whole_number(self.rate[0], "rate: jobs", 1)
            check_number(self.rate[1], "rate: seconds", 0.001, _LONGEST_S)
        if self.concurrency is not None:
            check_whole_number(self.concurrency, "concurrency", 1)

    def __str__(self) -> str:
        said = []
        if self.rate is not None:
            said.append(f"{self.rate[0]:,} per {self.rate[1]:g} s")
        if self.concurrency is not None:
            said.append(f"{self.concurrency:,} at once")
        return ", ".join(said) or "none"


UNLIMITED = QueueLimits()
