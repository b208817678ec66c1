"""The exception with which a handler postpones its job without a failure."""

from __future__ import annotations

from typing import Any

from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.durations import Delay, When, delay_ms, iso, when_ms
from chasqui_engine.values.errors import ChasquiError, ConfigError


class RetryLater(ChasquiError):  # noqa: N818 - a request, not an error
    """Raise it from a handler to run the job again after a delay, or at a time: `raise RetryLater(30)`.

    The run counts as none, so a job may be postponed for ever; with `count=True` it is one of the job's `attempts`,
    and the last one buries the job.
    """

    code = "CMQ-301"

    def __init__(self, delay: Delay | None = None, *, at: When | None = None, count: bool = False) -> None:
        if (delay is None) == (at is None):
            raise ConfigError("RetryLater takes either a delay in seconds (or a timedelta), or at=")
        self.count = count
        self.run_at_ms = None if at is None else when_ms(at, "at")
        self._delay_ms = None if delay is None else delay_ms(delay)
        when = f"to {iso(self.run_at_ms)}" if self.run_at_ms is not None else f"by {(self._delay_ms or 0) / 1000:g} s"
        super().__init__(f"postponed {when}")

    @property
    def delay_ms(self) -> int:
        """How long from now."""
        if self._delay_ms is not None:
            return self._delay_ms
        return max(0, (self.run_at_ms or 0) - now_ms())

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self._delay_ms, self.run_at_ms, self.count)


def _again(kind: type[RetryLater], later_ms: int | None, run_at_ms: int | None, count: bool) -> RetryLater:
    """The same, from a handler in a process of its own."""
    delay = None if later_ms is None else later_ms / 1000
    return kind(delay, at=None if run_at_ms is None else run_at_ms / 1000, count=count)
