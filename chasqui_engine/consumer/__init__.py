"""Taking jobs from a queue and running them."""

from __future__ import annotations

from chasqui_engine.consumer.consumer import Consumer
from chasqui_engine.consumer.execution.handler import Handler, check_handler

__all__ = ["Consumer", "Handler", "check_handler"]
