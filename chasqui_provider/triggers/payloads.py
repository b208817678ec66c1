"""The content of trigger events: ids and states, and only as much data as Airflow handles easily.

Airflow writes the text of every event into the log of the triggerer, and the event into its database, all in the one
process that serves every deferred task. So the text of an event names no more than its first ids, results that are not
small are left for the task to read, and jobs that wake a DAG share an event only as long as it stays small.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import TriggerEvent

from chasqui_engine import EncodeError
from chasqui_provider.conversion import to_airflow, to_json
from chasqui_provider.waiting.outcome import COMPLETED, Outcome, completed_outcome

MOST_BYTES = 256 * 1024
"""Size limit of the jobs or queue events in one event; a larger one gets an event to itself."""

_SMALL = 4096
"""Limit of the characters and values of all results in one event."""
_RESULT = "result_json"
_ID = "job_id_json"
"""The original id, if Airflow's database cannot store it."""
_NAMED = 3
_ID_CHARS = 100


class QuietEvent(TriggerEvent):
    """An event whose text does not show its data."""

    def __init__(self, payload: dict[str, Any]) -> None:
        super().__init__(payload)  # type: ignore[no-untyped-call]

    def __repr__(self) -> str:
        queue_name = self.payload.get("queue_name")
        where = f" of {queue_name}" if queue_name else ""
        lists = {name: items for name, items in self.payload.items() if isinstance(items, list)}
        lists_text = [f"{len(items)} {name}{where}: {_ids(items)}" for name, items in lists.items()]
        return f"<{'; '.join(lists_text) or str(self.payload)[:_ID_CHARS]}>"


def _ids(items: Sequence[Mapping[str, Any]]) -> str:
    ids = [repr(item.get("id", item.get("job_id")))[:_ID_CHARS] for item in items[:_NAMED]]
    return ", ".join([*ids, *(["…"] if len(items) > _NAMED else [])])


def result_event(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """The event of a completed wait. Results are JSON text, which Airflow and its database do not look into."""
    outcomes_json, room = [], _SMALL
    for outcome in outcomes:
        job_id = outcome["job_id"]
        plain = {name: value for name, value in outcome.items() if name != "result"} | {"job_id": to_json(job_id)}
        if plain["job_id"] != job_id:
            plain[_ID] = json.dumps(job_id)
        if outcome["status"] == COMPLETED and (text := _small_text(outcome["result"], room)) is not None:
            plain[_RESULT] = text
            room -= len(text)
        outcomes_json.append(plain)
    return {"outcomes": outcomes_json}


def outcomes_of(event: Mapping[str, Any]) -> Iterator[Outcome]:
    """The outcomes in an event; the result of a completed one without `result` is still on the server."""
    for told in event["outcomes"]:
        outcome = {name: value for name, value in told.items() if name != _ID}
        if _ID in told:
            outcome["job_id"] = json.loads(told[_ID])
        if _RESULT in told:
            yield completed_outcome(outcome["job_id"], json.loads(told[_RESULT]))
        else:
            yield outcome


def size_of(value: Any) -> int:
    """Approximate size in bytes of a JSON value."""
    return len(json.dumps(value))


def chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    """JSON values in lists that each fit into an event."""
    chunk: list[Any] = []
    room = MOST_BYTES
    for item in items:
        size = size_of(item)
        if chunk and size > room:
            yield chunk
            chunk, room = [], MOST_BYTES
        chunk.append(item)
        room -= size
    if chunk:
        yield chunk


def _small_text(result: Any, room: int) -> str | None:
    try:
        text = json.dumps(to_airflow(result, max_size=max(room, 0)))
    except EncodeError:
        return None
    return text if len(text) <= room else None
