"""Commands of the dead letters: list, get, replay, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chasqui_engine._redis.client.link import Argument, CommandError, Link
from chasqui_engine._redis.client.replies import ReplyError, decode_text
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.job import DlqEntry

_REPLAY = scripts.load("dead_letters/replay")
_READ_PAGE = scripts.load("stream/read_page")
_PAGE_BYTES = 8 * 1024 * 1024
"""Bytes of dead letters read or replayed at once; one more entry may exceed it."""


async def list_oldest(
    link: Link, keys: QueueKeys, *, count: int, after: str | None = None, until: str = "+"
) -> list[DlqEntry]:
    """Dead letters, oldest first, without taking them: fewer than `count` where they are large, none at the end."""
    start = "-" if after is None else f"({after}"
    reply = await link.run(_READ_PAGE, [keys.dlq], ["XRANGE", start, until, count, _PAGE_BYTES])
    return [_read_dead_letter(entry) for entry in reply]


async def list_newest(link: Link, keys: QueueKeys, *, count: int, before: str | None = None) -> list[DlqEntry]:
    """The same, newest first."""
    start = "+" if before is None else f"({before}"
    reply = await link.run(_READ_PAGE, [keys.dlq], ["XREVRANGE", start, "-", count, _PAGE_BYTES])
    return [_read_dead_letter(entry) for entry in reply]


async def get_dead_letters(link: Link, keys: QueueKeys, dlq_ids: Sequence[str]) -> list[DlqEntry]:
    """Those of these dead letters that still exist."""
    replies = await link.call_many(("XRANGE", keys.dlq, dlq_id, dlq_id) for dlq_id in dlq_ids)
    for reply in replies:
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
    return [_read_dead_letter(entry) for reply in replies for entry in reply]


def _read_dead_letter(entry: list[Any]) -> DlqEntry:
    fields = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
    detail = fields.get(b"detail")
    return DlqEntry(
        dlq_id=decode_text(entry[0]),
        source_id=decode_text(fields.get(b"source_id", b"")),
        reason=decode_text(fields.get(b"reason", b"")),
        detail=None if detail is None else decode_text(detail),
        payload=fields.get(b"d", b""),
        name=decode_text(fields.get(b"n", b"")),
    )


async def replay(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, bytes, str, str]]) -> int:
    """Moves (dead-letter id, envelope, name, job id) back to the stream; returns how many still existed."""
    moved, batch, size = 0, [], 0
    for job in jobs:
        batch.append(job)
        size += len(job[1])
        if size >= _PAGE_BYTES:
            moved += await _replay_page(link, keys, batch)
            batch, size = [], 0
    return moved + (await _replay_page(link, keys, batch) if batch else 0)


async def _replay_page(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, bytes, str, str]]) -> int:
    used = [keys.dlq, keys.stream, keys.delayed, keys.prio, keys.prio_jobs, keys.prio_state]
    args: list[Argument] = []
    for dlq_id, envelope, name, job_id in jobs:
        used.append(keys.failure(job_id))
        args += (dlq_id, envelope, name, len(used))
    # Not resent: it would report what it had moved as missing.
    moved: int = await link.run(_REPLAY, used, args, resend=False)
    return moved


_PAGE = 1000


async def delete(link: Link, keys: QueueKeys, dlq_ids: Sequence[str]) -> int:
    """Deletes dead letters for good; returns how many existed."""
    deleted = 0
    for start in range(0, len(dlq_ids), _PAGE):
        # Not resent: it would report what it had deleted as missing.
        deleted += await link.call("XDEL", keys.dlq, *dlq_ids[start : start + _PAGE], resend=False)
    return deleted
