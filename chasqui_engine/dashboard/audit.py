"""The audit log: a line for every change and export, with time, user, action and queue."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.values.durations import iso

_log = logging.getLogger("chasqui.audit")
_SHOWN_IDS = 20


@contextlib.contextmanager
def record(user: str, action: str, connection: str, queue: str, **facts: Any) -> Iterator[dict[str, Any]]:
    """Writes the line when the block ends, with the facts it added; also when it fails, since it may have begun."""
    entry: dict[str, Any] = {
        "at": iso(now_ms()),
        "user": user,
        "action": action,
        "connection": connection,
        "queue": queue,
        **facts,
    }
    try:
        yield entry
    except BaseException as err:
        entry["failed"] = getattr(err, "code", type(err).__name__)
        raise
    finally:
        for field in ("ids", "entries"):
            if len(ids := entry.get(field) or ()) > _SHOWN_IDS:
                entry[field] = [*ids[:_SHOWN_IDS], f"and {len(ids) - _SHOWN_IDS} more"]
        # JSON, so that a name cannot look like another line.
        _log.info("%s", json.dumps(entry, default=str))
