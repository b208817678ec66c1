"""What is kept beside the stream: results and failures, dead letters, leaders' locks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chasqui_engine._redis import scripts
from chasqui_engine._redis.connection import LATE_S, Argument, CommandError, Link
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine._redis.replies import ReplyError
from chasqui_engine.job import DlqEntry

_REPLAY = scripts.load("replay")
_READ_PAGE = scripts.load("page")
_LEASE = scripts.load("lease", on_full_server="lock")
_RELEASE = scripts.load("release", on_full_server="lock")

_PAGE = 500
_PAGE_BYTES = 8 * 1024 * 1024
"""Of dead letters that are read, or sent back, at once; it takes one more entry to notice."""


async def server_now_ms(link: Link) -> int:
    """The server's clock."""
    seconds, micros = await link.call("TIME")
    return int(seconds) * 1000 + int(micros) // 1000


async def get_results(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> list[bytes | None]:
    """Stored results, None for each that is not there."""
    return await _get_many(link, [keys.result(job_id) for job_id in job_ids])


async def get_failures(link: Link, keys: QueueKeys, job_ids: Sequence[str]) -> list[bytes | None]:
    """Failure records, None for each that is not there."""
    return await _get_many(link, [keys.failure(job_id) for job_id in job_ids])


async def _get_many(link: Link, names: list[str]) -> list[bytes | None]:
    found: list[bytes | None] = []
    for start in range(0, len(names), _PAGE):
        found += await link.call("MGET", *names[start : start + _PAGE])
    return found


async def last_event_id(link: Link, keys: QueueKeys) -> str:
    """Where the events stream ends right now."""
    last = await link.call("XREVRANGE", keys.events, "+", "-", "COUNT", 1)
    if last:
        return str(last[0][0].decode())
    try:  # trimmed to nothing, or never written to
        info = await link.call("XINFO", "STREAM", keys.events)
    except CommandError:
        return "0-0"
    facts = dict(zip(info[::2], info[1::2], strict=True))
    return str(facts[b"last-generated-id"].decode())


async def read_events(
    link: Link, keys: QueueKeys, after: str, *, count: int, block_ms: int
) -> list[tuple[str, dict[str, str]]]:
    """Events after an id, waiting up to `block_ms` for the first."""
    timeout_s = block_ms / 1000 + LATE_S
    reply = await link.call(
        "XREAD", "COUNT", count, "BLOCK", block_ms, "STREAMS", keys.events, after, timeout_s=timeout_s
    )
    return [(_text(entry[0]), _fields(entry[1])) for entry in reply[0][1]] if reply else []


async def peek_dead(
    link: Link, keys: QueueKeys, *, count: int, after: str | None = None, until: str = "+"
) -> list[DlqEntry]:
    """Dead letters, oldest first, without taking them: fewer than `count` where they are large, none at the end."""
    start = "-" if after is None else f"({after}"
    reply = await link.run(_READ_PAGE, [keys.dlq], ["XRANGE", start, until, count, _PAGE_BYTES])
    return [_dead(entry) for entry in reply]


async def peek_newest_dead(link: Link, keys: QueueKeys, *, count: int, before: str | None = None) -> list[DlqEntry]:
    """The same, newest first."""
    start = "+" if before is None else f"({before}"
    reply = await link.run(_READ_PAGE, [keys.dlq], ["XREVRANGE", start, "-", count, _PAGE_BYTES])
    return [_dead(entry) for entry in reply]


async def get_dead(link: Link, keys: QueueKeys, dlq_ids: Sequence[str]) -> list[DlqEntry]:
    """These dead letters, as far as they are still there."""
    replies = await link.call_many(("XRANGE", keys.dlq, dlq_id, dlq_id) for dlq_id in dlq_ids)
    for reply in replies:
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
    return [_dead(entry) for reply in replies for entry in reply]


def _dead(entry: list[Any]) -> DlqEntry:
    fields = dict(zip(entry[1][::2], entry[1][1::2], strict=True))
    detail = fields.get(b"detail")
    return DlqEntry(
        dlq_id=_text(entry[0]),
        source_id=_text(fields.get(b"source_id", b"")),
        reason=_text(fields.get(b"reason", b"")),
        detail=None if detail is None else _text(detail),
        payload=fields.get(b"d", b""),
        name=_text(fields.get(b"n", b"")),
    )


async def replay_dead(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, bytes, str, str]]) -> int:
    """Moves (dead-letter id, envelope, name, job id) back to the stream; returns how many were still there."""
    moved, batch, size = 0, [], 0
    for job in jobs:
        batch.append(job)
        size += len(job[1])
        if size >= _PAGE_BYTES:
            moved += await _replay_at_once(link, keys, batch)
            batch, size = [], 0
    return moved + (await _replay_at_once(link, keys, batch) if batch else 0)


async def _replay_at_once(link: Link, keys: QueueKeys, jobs: Sequence[tuple[str, bytes, str, str]]) -> int:
    used = [keys.dlq, keys.stream]
    args: list[Argument] = []
    for dlq_id, envelope, name, job_id in jobs:
        used.append(keys.failure(job_id))
        args += (dlq_id, envelope, name, len(used))
    # Sent again, it would count what it had moved as not there.
    moved: int = await link.run(_REPLAY, used, args, resend=False)
    return moved


async def hold_lease(link: Link, lock: str, holder: str, ttl_ms: int) -> bool:
    """Takes or keeps a leader's lock."""
    return bool(await link.run(_LEASE, [lock], [holder, ttl_ms]))


async def release_lease(link: Link, lock: str, holder: str) -> bool:
    """Gives a leader's lock back, if it is still this holder's."""
    return bool(await link.run(_RELEASE, [lock], [holder]))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _fields(flat: list[bytes]) -> dict[str, str]:
    return {_text(key): _text(value) for key, value in zip(flat[::2], flat[1::2], strict=True)}
