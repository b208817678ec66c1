"""What all operations on a queue need."""

from __future__ import annotations

from abc import ABC, abstractmethod

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.config import ProducerConfig


class Operations(ABC):
    """A queue, and a way to its server."""

    _keys: QueueKeys
    _config: ProducerConfig

    @abstractmethod
    async def _open_link(self) -> Link:
        """The link to the server; raises `ShutdownError` after `close`."""
