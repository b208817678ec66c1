"""What a worker says of itself to those who look at its queue."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.runtime.identity import version
from chasqui_engine.values.config import ConsumerConfig

_MOST_NAMES = 50
_NAME_CHARS = 100

_queues_here: Counter[str] = Counter()
"""The queues that consumers of this process read."""


def join(queue: str) -> None:
    """Notes that a consumer of this process reads a queue."""
    _queues_here[queue] += 1


def leave(queue: str) -> None:
    """Takes `join` back."""
    _queues_here[queue] -= 1


def queues_here() -> list[str]:
    """The queues that this process reads."""
    return sorted(queue for queue, count in list(_queues_here.items()) if count > 0)[:_MOST_NAMES]


def static_facts(config: ConsumerConfig, handler: Callable[..., Any]) -> dict[str, Any]:
    """What does not change while the worker runs."""
    return {
        "group": config.group,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": version(),
        "concurrency": config.concurrency,
        "max_attempts": config.max_attempts,
        "handlers": _handler_names(handler),
        "started_ms": now_ms(),
    }


def _handler_names(handler: Callable[..., Any]) -> list[str]:
    """The job names that it has handlers for, or the name of its one function."""
    names = getattr(handler, "job_names", None)
    if names is None:
        names = [getattr(handler, "__qualname__", type(handler).__qualname__)]
    return [str(name)[:_NAME_CHARS] for name in names[:_MOST_NAMES]]
