"""Running the jobs of a queue, as users see it: a worker, and which function runs which job."""

from __future__ import annotations

from chasqui_engine.consumer.execution.handler import is_async
from chasqui_engine.worker.handler_registry import HandlerRegistry, handler, registry
from chasqui_engine.worker.worker import Worker

__all__ = ["HandlerRegistry", "Worker", "handler", "is_async", "registry"]
