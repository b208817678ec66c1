"""What the log says of a server that cannot be worked with: one line when it begins, one when it is over."""

from __future__ import annotations

import logging

from chasqui_engine.clock import monotonic

_log = logging.getLogger("chasqui")


class Trouble:
    """Shared by all that wait for one server, so that they say it once."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._waiting = 0
        self._since = 0.0

    def begin(self, why: str) -> None:
        """Somebody has to wait."""
        self._waiting += 1
        if self._waiting == 1:
            self._since = monotonic()
            _log.warning("%s; trying on", why)

    def end(self, *, mended: bool) -> None:
        """Somebody waits no longer: it works again, or they gave up, which is for them to say."""
        self._waiting -= 1
        if mended and self._waiting == 0:
            _log.info("back at %s after %.1f s", self._address, monotonic() - self._since)
