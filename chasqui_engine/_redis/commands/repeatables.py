"""Repeatable specs: a set of keys by the time they fire next, and a hash for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from chasqui_engine._redis.client.link import Argument, CommandError, Link
from chasqui_engine._redis.client.replies import ReplyError, time_ms
from chasqui_engine._redis.commands import scripts
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.values.validation import MAX_SPEC_BYTES

_UPSERT = scripts.load("repeatable/upsert")
_SET_NEXT_FIRE = scripts.load("repeatable/set_next_fire")
_REMOVE = scripts.load("repeatable/remove")
_READ = scripts.load("repeatable/read")
_FIRE = scripts.load("repeatable/fire", on_full_server="zset")

_PAGE = 500
_PAGE_BYTES = 16 * 1024 * 1024

Fire = tuple[str, float, int | None, str, Sequence[bytes]]
"""Key, fire time as read, next fire (None if it has ended), job name, envelopes."""


class StoredSpec(NamedTuple):
    """A stored spec."""

    key: str
    next_fire_ms: float
    size: int | None
    """Size of the spec in bytes; None if there is none under this key."""
    data: bytes | None
    """None if there is none, or if it is too large to read."""
    fired: int


class Page(NamedTuple):
    """Specs that were read together."""

    specs: list[StoredSpec]
    more: bool
    """Whether there may be more than these."""


class StoredFire(NamedTuple):
    """A spec before it is changed."""

    now_ms: int
    """The server's clock."""
    score: bytes | None
    """When it fires next, as the server writes it; None if it does not exist."""
    data: bytes | None
    """None if there is none, or if it is too large to read."""


async def read_next_fire(link: Link, keys: QueueKeys, key: str) -> StoredFire:
    """Reads a stored spec before it is changed."""
    time, score = await link.call_many([("TIME",), ("ZSCORE", keys.repeat, _key_bytes(key))])
    for reply in (time, score):
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
    now_ms = time_ms(time)
    if score is None:
        return StoredFire(now_ms, None, None)
    [(_size, data, _fired)] = await _read_hashes(link, keys, [key])
    return StoredFire(now_ms, score, data)


async def upsert(link: Link, keys: QueueKeys, key: str, spec: bytes, next_fire_ms: int, before: StoredFire) -> bool:
    """Stores a spec; False if it fired or was replaced since `before`."""
    planned_at = b"" if before.score is None else before.score
    return bool(await link.run(_UPSERT, [keys.repeat, keys.spec(key)], [key, spec, next_fire_ms, planned_at]))


async def set_next_fire(link: Link, keys: QueueKeys, key: str, next_fire_ms: int, before: StoredFire) -> bool:
    """Gives a spec another next fire; False if it fired or was replaced since `before`."""
    return bool(await link.run(_SET_NEXT_FIRE, [keys.repeat], [_key_bytes(key), next_fire_ms, before.score or b""]))


async def remove(link: Link, keys: QueueKeys, key: str) -> bool:
    """Removes a spec; True if there was one."""
    used: list[Argument] = [keys.repeat, _key_bytes(keys.spec(key))]
    return bool(await link.run(_REMOVE, used, [_key_bytes(key)], resend=False))


async def next_fire_after(link: Link, keys: QueueKeys, ms: int) -> float | None:
    """When the first spec after `ms` fires."""
    reply = await link.call("ZRANGEBYSCORE", keys.repeat, f"({ms}", "+inf", "WITHSCORES", "LIMIT", 0, 1)
    return float(reply[1]) if reply else None


async def read_page(link: Link, keys: QueueKeys, *, count: int, start: int = 0, due_by_ms: int | None = None) -> Page:
    """Specs in firing order, all or the due ones: up to `count`, fewer if they are large."""
    until = "+inf" if due_by_ms is None else due_by_ms
    count = min(count, _PAGE)
    reply = await link.call("ZRANGEBYSCORE", keys.repeat, "-inf", until, "WITHSCORES", "LIMIT", start, count)
    names = [_key_text(member) for member in reply[::2]]
    hashes = await _read_hashes(link, keys, names)
    # Those that did not fit into the reply are left for the next page.
    found = zip(names[: len(hashes)], reply[1::2], hashes, strict=False)
    specs = [StoredSpec(name, float(score), *stored) for name, score, stored in found]
    return Page(specs, len(names) == count or len(specs) < len(names))


async def _read_hashes(link: Link, keys: QueueKeys, names: Sequence[str]) -> list[tuple[int | None, bytes | None, int]]:
    if not names:
        return []
    used = [_key_bytes(keys.spec(name)) for name in names]
    reply = await link.run(_READ, used, [MAX_SPEC_BYTES, _PAGE_BYTES])
    return [
        (None if size < 0 else size, data or None, int(fired) if fired.isdigit() else 0)
        for size, data, fired in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    ]


async def fire(link: Link, keys: QueueKeys, fires: Sequence[Fire]) -> list[Any]:
    """Creates the jobs of these fires; per spec the number, or -1 if another scheduler was first."""
    calls: list[tuple[Sequence[Argument], Sequence[Argument]]] = [
        (
            [keys.repeat, _key_bytes(keys.spec(key)), keys.stream],
            [_key_bytes(key), at_ms, "" if next_ms is None else next_ms, job_name, *envelopes],
        )
        for key, at_ms, next_ms, job_name, envelopes in fires
    ]
    return await link.run_many(_FIRE, calls)


def _key_text(data: bytes) -> str:
    """A spec's key as text that converts back to the same bytes, so that any spec can be removed."""
    return data.decode(errors="surrogateescape")


def _key_bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
