"""One entry of the events stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chasqui_engine.values.job import MAX_PROGRESS_CHARS
from chasqui_engine.values.stream_ids import ms_of

EVENT_NAMES = (
    "waiting",
    "active",
    "completed",
    "failed",
    "retry-scheduled",
    "delayed",
    "dlq",
    "drained",
    "progress",
    "removed",
    "aborted",
    "expired",
)
"""The names of all events."""
_MOST_DIGITS = 19
"""Of 64 bits."""
_NUMBERS = frozenset({"attempt", "backoff_ms", "delay_ms", "duration_us", "enqueued_at_ms", "ts"})


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """A transition of a job, or of the queue."""

    name: str
    """One of `EVENT_NAMES`, or one of a newer ChasquiMQ."""
    job_id: str | None
    """None for an event of the queue itself."""
    job_name: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    """The other fields: `ts`, `attempt`, `reason` …; numbers as int."""
    entry_id: str = ""
    """Its id in the stream: pass it as `last_event_id` to continue from here."""

    @property
    def at_ms(self) -> int:
        """When it was emitted, by the server's clock."""
        return ms_of(self.entry_id)

    @staticmethod
    def of(entry_id: str, fields: Mapping[str, str]) -> QueueEvent:
        """The event in a stream entry; a field that cannot be parsed stays text."""
        rest: dict[str, Any] = {key: _number(value) if key in _NUMBERS else value for key, value in fields.items()}
        if "progress" in rest:
            rest["progress"] = _json(rest["progress"])
        return QueueEvent(
            name=str(rest.pop("e", "")),
            job_id=str(rest.pop("id", "")) or None,
            job_name=str(rest.pop("n", "")),
            fields=rest,
            entry_id=entry_id,
        )


def event_error(fields: Mapping[str, Any]) -> str:
    """The error in the fields of a `failed` event: its class, if the event says it, and its text."""
    kind, text = str(fields.get("error_type", "")), str(fields.get("reason", ""))
    return text if not kind or text == kind else f"{kind}: {text}"


def _json(text: str) -> Any:
    if len(text) > MAX_PROGRESS_CHARS:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _number(text: str) -> int | str:
    # Other programs may have written any number: one beyond every clock and counter would break calculations.
    if len(text) > _MOST_DIGITS:
        return text
    try:
        return int(text)
    except ValueError:
        return text
