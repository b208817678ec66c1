"""Marks of dead letters that were redriven, in a hash beside the dead-letter stream: when, by whom and as which job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.commands.keys import QueueKeys

_PAGE = 1000
_KEEP_S = 90 * 86_400
"""How long after the last redrive the marks are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveMark:
    """The redrive of a dead letter."""

    at_ms: int
    by: str
    queue: str
    """The queue to which the job was added."""
    job_id: str


def _key(keys: QueueKeys) -> str:
    return f"{keys.prefix}:redrives"


def mark_redriven(connection: BulkConnection, keys: QueueKeys, marks: Mapping[str, RedriveMark]) -> None:
    """Marks dead letters, given by their ids."""
    entry_ids = list(marks)
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        pairs = [text for entry_id in page for text in (entry_id, json.dumps(asdict(marks[entry_id])))]
        connection.call("HSET", _key(keys), *pairs)
    connection.call("EXPIRE", _key(keys), _KEEP_S)


def read_marks(connection: BulkConnection, keys: QueueKeys, entry_ids: Sequence[str]) -> dict[str, RedriveMark | None]:
    """The existing marks of `entry_ids`; None for an unreadable mark."""
    found: dict[str, RedriveMark | None] = {}
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        marks = connection.call("HMGET", _key(keys), *page)
        found |= {entry_id: _parse(text) for entry_id, text in zip(page, marks, strict=True) if text is not None}
    return found


def _parse(text: bytes) -> RedriveMark | None:
    try:
        content = json.loads(text)
        mark = RedriveMark(**content)
    except (ValueError, TypeError, RecursionError):
        return None
    kinds = {"at_ms": int, "by": str, "queue": str, "job_id": str}
    return mark if all(type(content[name]) is kind for name, kind in kinds.items()) else None


def list_redriven(connection: BulkConnection, keys: QueueKeys) -> set[str]:
    """The ids of all marked dead letters."""
    found: set[str] = set()
    cursor = b"0"
    while True:
        cursor, page = connection.call("HSCAN", _key(keys), cursor, "COUNT", _PAGE)
        found.update(entry_id.decode() for entry_id in page[::2])
        if cursor == b"0":
            return found


def find_taken(connection: BulkConnection, keys: QueueKeys, job_ids: Sequence[str]) -> set[str]:
    """Those of `job_ids` that are still taken by an added job."""
    found: set[str] = set()
    for start in range(0, len(job_ids), _PAGE):
        page = job_ids[start : start + _PAGE]
        replies = connection.call_many([("EXISTS", keys.taken(job_id)) for job_id in page])
        found.update(job_id for job_id, reply in zip(page, replies, strict=True) if reply == 1)
    return found
