"""Which dead letters were made jobs again: a set of their ids beside the dead-letter stream."""

from __future__ import annotations

from collections.abc import Sequence

from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.commands.keys import QueueKeys

_PAGE = 1000
_KEEP_S = 90 * 86_400
"""How long after the last redrive the marks are kept."""


def _key(keys: QueueKeys) -> str:
    return f"{keys.prefix}:redriven"


def mark_redriven(connection: BulkConnection, keys: QueueKeys, entry_ids: Sequence[str]) -> None:
    """Marks dead letters as made jobs again."""
    for start in range(0, len(entry_ids), _PAGE):
        connection.call("SADD", _key(keys), *entry_ids[start : start + _PAGE])
    connection.call("EXPIRE", _key(keys), _KEEP_S)


def redriven(connection: BulkConnection, keys: QueueKeys, entry_ids: Sequence[str]) -> set[str]:
    """Those of `entry_ids` that are marked."""
    found: set[str] = set()
    for start in range(0, len(entry_ids), _PAGE):
        page = entry_ids[start : start + _PAGE]
        replies = connection.call_many([("SISMEMBER", _key(keys), entry_id) for entry_id in page])
        found.update(entry_id for entry_id, reply in zip(page, replies, strict=True) if reply == 1)
    return found


def taken(connection: BulkConnection, keys: QueueKeys, job_ids: Sequence[str]) -> set[str]:
    """Those of `job_ids` under which a job was added and cannot be added again yet."""
    found: set[str] = set()
    for start in range(0, len(job_ids), _PAGE):
        page = job_ids[start : start + _PAGE]
        replies = connection.call_many([("EXISTS", keys.taken(job_id)) for job_id in page])
        found.update(job_id for job_id, reply in zip(page, replies, strict=True) if reply == 1)
    return found


def all_redriven(connection: BulkConnection, keys: QueueKeys) -> set[str]:
    """All that are marked."""
    found: set[str] = set()
    cursor = b"0"
    while True:
        cursor, page = connection.call("SSCAN", _key(keys), cursor, "COUNT", _PAGE)
        found.update(member.decode() for member in page)
        if cursor == b"0":
            return found
