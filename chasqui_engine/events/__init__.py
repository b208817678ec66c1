"""The events stream, from the reading side."""

from __future__ import annotations

from chasqui_engine.events.event import QueueEvent
from chasqui_engine.events.subscription import QueueEvents

__all__ = ["QueueEvent", "QueueEvents"]
