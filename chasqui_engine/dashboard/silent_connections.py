"""Closes connections without a request after a while, and the oldest of an address that opens many."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

_HEADERS_S = 10.0
"""Time for a request to arrive."""
_MOST_SILENT = 100
"""Connections per address without a request in progress."""


class PatientProtocol(H11Protocol):
    """The HTTP protocol of uvicorn, with a timeout for requests."""

    _silent: ClassVar[dict[str, dict[PatientProtocol, asyncio.TimerHandle]]] = defaultdict(dict)

    def connection_made(self, transport: Any) -> None:
        """Starts the timeout."""
        super().connection_made(transport)
        self._note()

    def data_received(self, data: bytes) -> None:
        """Ends the timeout once a request is complete."""
        super().data_received(data)
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
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
