"""Reading the events stream."""

from __future__ import annotations

from chasqui_engine.events.event import EVENT_NAMES, QueueEvent
from chasqui_engine.events.last_runs import LastRun
from chasqui_engine.events.subscription import QueueEvents

__all__ = ["EVENT_NAMES", "LastRun", "QueueEvent", "QueueEvents"]
