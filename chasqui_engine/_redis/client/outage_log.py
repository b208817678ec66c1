"""Logs outages of a server: the beginning, a reminder now and then, and the end."""

from __future__ import annotations

import logging

from chasqui_engine.runtime.clock import monotonic

_log = logging.getLogger("chasqui.redis")

_REMIND_S = 5.0


class OutageLog:
    """Shared by all waiters for one server, so that an outage is logged once."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._waiting = 0
        self._since = 0.0
        self._remind_at = 0.0

    def begin(self, why: str) -> None:
        """A call begins to wait for the server."""
        self._waiting += 1
        if self._waiting == 1:
            self._since = monotonic()
            self._remind_at = self._since + _REMIND_S
            _log.warning("%s; retrying", why)

    def remind(self) -> None:
        """A call with limited patience still waits."""
        now = monotonic()
        if now >= self._remind_at:
            self._remind_at = now + _REMIND_S
            _log.warning("%s is still unreachable after %.0f s; retrying", self._address, now - self._since)

    def end(self, *, is_recovered: bool) -> None:
        """A call stops waiting: the server is back, or the call gave up and raises."""
        self._waiting -= 1
        if is_recovered and self._waiting == 0:
            _log.info("reconnected to %s after %.1f s", self._address, monotonic() - self._since)
