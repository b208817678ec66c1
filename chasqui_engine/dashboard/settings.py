"""What can be set about the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from chasqui_engine.errors import ConfigError
from chasqui_engine.validation import check_queue_name

Payloads = Literal["show", "mask", "hide"]
"""What is seen of payloads: all, their shape without the values, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """How the dashboard shows what it shows."""

    payloads: Payloads = "show"
    """Decided on the server: what is hidden here is in no page, answer or export."""
    group: str = "default"
    """The consumer group whose workers are shown."""
    page_size: int = 50
    """Rows of a page of dead letters or jobs."""
    live_interval_s: float = 2.0
    """How often a queue that somebody watches is looked at; all who watch it share the look."""
    most_queues: int = 200
    """Queues of one connection that are listed; the search finds the others."""
    most_watchers: int = 100
    """Open live connections of browsers; more are refused, and their pages ask now and then instead."""

    def __post_init__(self) -> None:
        if self.payloads not in get_args(Payloads):
            raise ConfigError(f"payloads must be show, mask or hide, got {self.payloads!r}")
        check_queue_name(self.group, "group")
        for field, least, most in (
            ("page_size", 1, 500),
            ("live_interval_s", 0.1, 3600),
            ("most_queues", 1, 10_000),
            ("most_watchers", 0, 10_000),
        ):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise ConfigError(f"{field} must be a number from {least} to {most}, got {value!r}")
