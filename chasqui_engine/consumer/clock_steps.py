"""The server's clock: what time it is there, and a warning when it steps, since delays and idle times depend on it."""

from __future__ import annotations

import logging

from chasqui_engine._redis.client.link import Link
from chasqui_engine.runtime.clock import monotonic, now_ms

_log = logging.getLogger("chasqui.consumer")

_STEP_MS = 1000
_SLOW_S = 0.5
"""A slower answer is too imprecise."""


class ClockSteps:
    """Compares the server's clock with a monotonic one."""

    def __init__(self, link: Link, queue: str) -> None:
        self._link = link
        self._queue = queue
        self._ahead_ms: float | None = None

    def server_now_ms(self) -> float:
        """The server's time; this machine's before the first check."""
        return now_ms() if self._ahead_ms is None else monotonic() * 1000 + self._ahead_ms

    async def check(self) -> None:
        """Reads the server's time, and warns if it is not the expected one."""
        asked_at = monotonic()
        seconds, micros = await self._link.call("TIME")
        answered_at = monotonic()
        if answered_at - asked_at > _SLOW_S:
            return
        step_ms = self.note(int(seconds) * 1000 + int(micros) / 1000, (asked_at + answered_at) / 2)
        if step_ms < 0:
            _log.warning(
                "queue %s: the server's clock stepped back by %.1f s. Delayed jobs, retries and repeatables, and jobs "
                "whose worker died, wait that much longer; others run as usual",
                self._queue,
                -step_ms / 1000,
            )
        elif step_ms > 0:
            _log.warning(
                "queue %s: the server's clock stepped forward by %.1f s. Delayed jobs, retries and repeatables of that "
                "time run now; jobs that run keep their workers",
                self._queue,
                step_ms / 1000,
            )

    def note(self, server_ms: float, at: float) -> float:
        """Records the server's time at a local time; returns the step since the last record, else 0."""
        ahead_ms = server_ms - at * 1000
        before_ms, self._ahead_ms = self._ahead_ms, ahead_ms
        step_ms = 0.0 if before_ms is None else ahead_ms - before_ms
        return step_ms if abs(step_ms) >= _STEP_MS else 0.0
