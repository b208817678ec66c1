"""What the log says of a server that cannot be worked with: when it begins, now and then, and when it is over."""

from __future__ import annotations

import logging

from chasqui_engine.clock import monotonic

_log = logging.getLogger("chasqui.redis")

_REMIND_S = 5.0


class OutageLog:
    """Shared by all that wait for one server, so that they say it once."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._waiting = 0
        self._since = 0.0
        self._remind_at = 0.0

    def begin(self, why: str) -> None:
        """Somebody has to wait."""
        self._waiting += 1
        if self._waiting == 1:
            self._since = monotonic()
            self._remind_at = self._since + _REMIND_S
            _log.warning("%s; retrying", why)

    def remind(self) -> None:
        """Somebody who does not wait for ever still waits."""
        now = monotonic()
        if now >= self._remind_at:
            self._remind_at = now + _REMIND_S
            _log.warning("%s is still away after %.0f s; retrying", self._address, now - self._since)

    def end(self, *, mended: bool) -> None:
        """Somebody waits no longer: it works again, or they gave up, which is for them to say."""
        self._waiting -= 1
        if mended and self._waiting == 0:
            _log.info("reconnected to %s after %.1f s", self._address, monotonic() - self._since)
