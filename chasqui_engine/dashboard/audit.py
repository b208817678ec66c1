"""One line for every change, and for every export: who did what to which queue."""

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
    """Writes the line when the block ends, with what it added; also when it fails, for it may have begun."""
    told = {"user": user, "action": action, "connection": connection, "queue": queue, **facts}
    try:
        yield told
    except BaseException as err:
        told["failed"] = getattr(err, "code", type(err).__name__)
        raise
    finally:
        if len(ids := told.get("ids") or ()) > _SHOWN_IDS:
            told["ids"] = [*ids[:_SHOWN_IDS], f"and {len(ids) - _SHOWN_IDS} more"]
        # JSON, so that nothing in a name can look like another line.
        _log.info("%s", json.dumps(told, default=str))
