"""The Python files that `worker --reload` watches, and when each was last written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_MOST_FILES = 20_000
_NOT_WATCHED = {"__pycache__", "node_modules", "site-packages"}


def modification_times() -> dict[Path, float]:
    """When each Python file under the current folder was last written."""
    found: dict[Path, float] = {}
    for folder, folders, files in os.walk("."):
        folders[:] = [name for name in folders if name not in _NOT_WATCHED and not name.startswith(".")]
        for name in files:
            if name.endswith(".py"):
                path = Path(folder) / name
                # Deleted since it was listed.
                with contextlib.suppress(OSError):
                    found[path] = path.stat().st_mtime
        if len(found) > _MOST_FILES:
            break
    return found
