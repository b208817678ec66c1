"""What sentinels publish about a failover, and how connections to the master react.

A manual failover leaves the old master alive, and it accepts writes until a sentinel makes it a replica,
some nine seconds after the other server was promoted: all of them are lost. Clients therefore leave before the
promotion, which the sentinel in charge announces one or two of its rounds (of 50 to 100 ms) ahead.
"""

from __future__ import annotations

from chasqui_engine._redis.client.urls import HostPort
from chasqui_engine.runtime.clock import monotonic

_BEGUN = "+failover-state-select-slave"
_SWITCHED = "+switch-master"
_ABORTED = "-failover-abort-"

CHANNELS = (_BEGUN, _SWITCHED, f"{_ABORTED}*")
"""The patterns to subscribe to at every sentinel."""

LONGEST_S = 10.0
"""A failover without further news is over after this time: its sentinel may be gone."""


class FailoverNews:
    """The state of one service, from the messages of all its sentinels."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._begun_at = -LONGEST_S
        self._left: HostPort | None = None
        self._left_at = -LONGEST_S

    @property
    def under_way(self) -> bool:
        """Whether the master is about to be replaced: writes that it accepts now may be lost."""
        return monotonic() - self._begun_at < LONGEST_S

    def is_replaced(self, place: HostPort) -> bool:
        """Whether the master at this address was just replaced; some sentinels may not know it yet."""
        return place == self._left and monotonic() - self._left_at < LONGEST_S

    def read(self, channel: str, text: str) -> bool:
        """Processes a message; True if connections to the master must be closed."""
        words = text.split()
        if channel == _SWITCHED:
            if len(words) != 5 or words[0] != self._service:
                return False
            self._begun_at = -LONGEST_S
            self._left, self._left_at = HostPort(words[1], int(words[2])), monotonic()
            return True
        # "master <name> <ip> <port>"
        if words[:2] != ["master", self._service]:
            return False
        begun = channel == _BEGUN
        self._begun_at = monotonic() if begun else -LONGEST_S
        return begun
