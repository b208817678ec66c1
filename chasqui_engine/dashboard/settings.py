"""Settings of the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from chasqui_engine import ConfigError
from chasqui_engine.values.validation import check_queue_name

Payloads = Literal["show", "mask", "hide"]
"""What is shown of payloads: everything, their shape without values, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """Settings of the dashboard."""

    payloads: Payloads = "show"
    """Applied on the server: hidden data is in no page, response or export."""
    group: str = "default"
    """The consumer group whose workers are shown."""
    page_size: int = 50
    """Rows of a page of dead letters or jobs."""
    live_interval_s: float = 2.0
    """How often a queue on an open page is read; all pages share the read."""
    most_queues: int = 200
    """Queues listed per connection; the search finds the others."""
    alarm_after_s: float = 300.0
    """A queue whose oldest job has waited for longer is marked red."""
    most_watchers: int = 100
    """Open live connections of browsers; the pages of further ones poll instead."""

    def __post_init__(self) -> None:
        if self.payloads not in get_args(Payloads):
            raise ConfigError(f"payloads must be show, mask or hide, got {self.payloads!r}")
        check_queue_name(self.group, "group")
        for field, least, most in (
            ("page_size", 1, 500),
            ("live_interval_s", 0.1, 3600),
            ("most_queues", 1, 10_000),
            ("alarm_after_s", 1, 31_536_000),
            ("most_watchers", 0, 10_000),
        ):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise ConfigError(f"{field} must be a number from {least} to {most}, got {value!r}")
