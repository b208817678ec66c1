"""POSIX features. Elsewhere, as on Windows, queues and producers work without them, and the rest raises an error."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from chasqui_engine.values.errors import NotSupportedError


def at_fork(after_in_child: Callable[[], Any]) -> None:
    """`os.register_at_fork`, where it exists."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=after_in_child)


def need_posix(what: str) -> None:
    """Raises an error on other systems."""
    if not hasattr(os, "register_at_fork"):
        raise NotSupportedError(f"{what} needs POSIX (Linux, macOS); queues and producers run on any system")
