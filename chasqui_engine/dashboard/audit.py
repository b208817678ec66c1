"""The audit log: a line for every change and export, with user, action and queue."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

_log = logging.getLogger("chasqui.audit")
_SHOWN_IDS = 20


@contextlib.contextmanager
def record(user: str, action: str, connection: str, queue: str, **facts: Any) -> Iterator[dict[str, Any]]:
    """Writes the line when the block ends, with the facts it added; also when it fails, since it may have begun."""
    entry = {"user": user, "action": action, "connection": connection, "queue": queue, **facts}
    try:
        yield entry
    except BaseException as err:
        entry["failed"] = getattr(err, "code", type(err).__name__)
        raise
    finally:
        if len(ids := entry.get("ids") or ()) > _SHOWN_IDS:
            entry["ids"] = [*ids[:_SHOWN_IDS], f"and {len(ids) - _SHOWN_IDS} more"]
        # JSON, so that a name cannot look like another line.
        _log.info("%s", json.dumps(entry, default=str))
