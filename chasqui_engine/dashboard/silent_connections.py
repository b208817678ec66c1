"""Connections that say nothing: they are closed after a while, and an address that opens many loses its own oldest."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

_HEADERS_S = 10.0
"""For a request to be said."""
_MOST_SILENT = 100
"""Connections of one address that have no request under way."""


class PatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to its patience."""

    _silent: ClassVar[dict[str, dict[PatientProtocol, asyncio.TimerHandle]]] = defaultdict(dict)

    def connection_made(self, transport: Any) -> None:
        """It is silent as yet."""
        super().connection_made(transport)
        self._note()

    def data_received(self, data: bytes) -> None:
        """It is not, once a request is whole."""
        super().data_received(data)
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._forget()
        super().connection_lost(exc)

    def _note(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
            return
        others = self._silent[self._address]
        if self in others or self.transport.is_closing():
            return
        if len(others) >= _MOST_SILENT:
            next(iter(others)).transport.abort()
        others[self] = self.loop.call_later(_HEADERS_S, self.transport.abort)

    def _forget(self) -> None:
        others = self._silent[self._address]
        if (timer := others.pop(self, None)) is not None:
            timer.cancel()
        if not others:
            del self._silent[self._address]

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""
