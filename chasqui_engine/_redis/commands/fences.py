"""Fences of adds: the name under which a server with `XADD … IDMP` (Redis 8.6) knows an add that is sent again.

The server remembers the last 100 names of a producer for 100 seconds. A producer here has several names for itself, in
turn, so that it remembers more adds than are ever under way.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from chasqui_engine._redis.client.link import Link
from chasqui_engine.runtime.clock import monotonic

_PER_LANE = 100
"""What a server remembers of one producer (`IDMP-MAXSIZE`)."""
_LANES = 16
_HOLDS = _PER_LANE * (_LANES - 1)
_HOLDS_S = 90.0
"""A little less than what a server keeps a name for (`IDMP-DURATION`)."""


@dataclass(frozen=True, slots=True)
class Fence:
    """One add, by its name."""

    lane: str
    number: int
    begun_at: float
    maker: Fences

    def holds(self) -> bool:
        """Whether the server still knows the add, if it ran."""
        return self.maker.count - self.number < _HOLDS and monotonic() - self.begun_at < _HOLDS_S


class Fences:
    """The fences of one producer."""

    def __init__(self) -> None:
        self._origin = secrets.token_urlsafe(6)
        self.count = 0
        """Made so far."""

    def make(self, link: Link) -> Fence | None:
        """A fence for the next add; None where the server takes none."""
        if not link.capabilities.idmp:
            return None
        self.count += 1
        lane = f"{self._origin}{self.count // _PER_LANE % _LANES}"
        return Fence(lane, self.count, monotonic(), self)
