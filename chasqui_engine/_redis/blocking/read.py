"""Bulk reads: pages of a queue's keys that touch no consumer group and keep the server busy for one page at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.client.link import CommandError
from chasqui_engine._redis.client.protocol import Reply
from chasqui_engine._redis.client.replies import ReplyError, time_ms
from chasqui_engine._redis.commands.keys import QueueKeys

_TRIES = 5
_AT_A_TIME = 1000
_MOST_DIGITS = 19
_SPECIAL = str.maketrans({c: f"\\{c}" for c in "*?[]\\^-"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """The state of a stream."""

    length: int
    first_id: str | None
    """None when it is empty."""
    last_generated_id: str
    added: int | None
    """Entries ever added; None on servers that do not count them (before Redis 7)."""
    max_deleted_id: str | None
    """The highest id that was deleted explicitly, not by a trim. None on those servers."""


def stream_facts(connection: BulkConnection, key: str) -> StreamFacts:
    """The current state of the stream; a missing stream is empty."""
    try:
        reply = connection.call("XINFO", "STREAM", key)
    except CommandError as err:
        if "no such key" not in str(err):
            raise
        return StreamFacts(length=0, first_id=None, last_generated_id="0-0", added=0, max_deleted_id="0-0")
    facts = dict(zip(reply[::2], reply[1::2], strict=True))
    first = facts[b"first-entry"]
    added, deleted = facts.get(b"entries-added"), facts.get(b"max-deleted-entry-id")
    return StreamFacts(
        length=int(facts[b"length"]),
        first_id=first[0].decode() if first else None,
        last_generated_id=facts[b"last-generated-id"].decode(),
        added=None if added is None else int(added),
        max_deleted_id=None if deleted is None else deleted.decode(),
    )


def server_now_ms(connection: BulkConnection) -> int:
    """The server's clock."""
    return time_ms(connection.call("TIME"))


def sample_ids(connection: BulkConnection, key: str, starts: Sequence[str], end: str, count: int) -> list[list[str]]:
    """Up to `count` ids from each start, none later than `end`."""
    replies = connection.call_many([("XRANGE", key, start, end, "COUNT", count) for start in starts])
    return [[entry[0].decode() for entry in _check_reply(reply)] for reply in replies]


def ask_for_entries(connection: BulkConnection, key: str, start: str, end: str, count: int) -> None:
    """Requests a page of entries from `start` to `end`, both included; `receive_page` returns it."""
    connection.ask_for_page("XRANGE", key, start, end, "COUNT", count)


Kept = tuple[str, bytes, int]
"""The rest of a key, its value, and the milliseconds until it expires; -1 never."""
Scored = tuple[bytes, float]
"""A member of a sorted set, and its score."""


def read_scored_pages(connection: BulkConnection, key: str, low: str, high: str, count: int) -> Iterator[list[Scored]]:
    """Members of a sorted set by score, page by page; `low` and `high` as ZRANGEBYSCORE takes them."""
    page = _from_score(connection, key, low, high, count)
    is_all = len(page) < count
    done: tuple[float, bytes] | None = None
    while page:
        fresh = [entry for entry in page if done is None or (entry[1], entry[0]) > done]
        if fresh:
            yield fresh
            done = fresh[-1][1], fresh[-1][0]
        page = [] if is_all else _after(connection, key, page[-1], high, count)


def _after(connection: BulkConnection, key: str, last: Scored, high: str, count: int) -> list[Scored]:
    """The members after `last`, by its rank: skipping members with the same score gets slower with each page."""
    member, score = last
    for _ in range(_TRIES):
        rank = connection.patiently(partial(connection.call, "ZRANK", key, member))
        if rank is None:
            break
        found = _pairs(connection.patiently(partial(connection.call, "ZRANGE", key, rank, rank + count, "WITHSCORES")))
        # Promoted members leave at the front and shift all ranks, so check that `last` has not moved.
        if found and found[0][0] == member:
            end, excluded = float(high.removeprefix("(")), high.startswith("(")
            return [entry for entry in found[1:] if entry[1] < end or (entry[1] == end and not excluded)]
    return _from_score(connection, key, repr(score), high, count)


def _from_score(connection: BulkConnection, key: str, low: str, high: str, count: int) -> list[Scored]:
    command = ("ZRANGEBYSCORE", key, low, high, "WITHSCORES", "LIMIT", 0, count)
    return _pairs(connection.patiently(partial(connection.call, *command)))


def _pairs(reply: list[bytes]) -> list[Scored]:
    return [(member, float(score)) for member, score in zip(reply[::2], reply[1::2], strict=True)]


def read_scores_at(connection: BulkConnection, key: str, ranks: Sequence[int]) -> list[float]:
    """The scores at some ranks, as far as they exist."""
    replies = connection.call_many([("ZRANGE", key, rank, rank, "WITHSCORES") for rank in ranks])
    return [float(reply[1]) for reply in map(_check_reply, replies) if reply]


def count_members(connection: BulkConnection, key: str) -> int:
    """Members of a sorted set."""
    return int(connection.call("ZCARD", key))


def read_specs(connection: BulkConnection, keys: QueueKeys, members: Sequence[bytes]) -> list[tuple[bytes | None, int]]:
    """(spec, fired so far) of repeatable specs."""
    prefix = keys.spec("").encode()
    replies = connection.call_many([("HMGET", prefix + member, "spec", "fired") for member in members])
    return [(None, 0) if type(reply) is ReplyError else (reply[0], _count(reply[1])) for reply in replies]


def _count(digits: bytes | None) -> int:
    """A 64-bit count of the server; None for any other text that another program may have written."""
    return int(digits) if digits and len(digits) <= _MOST_DIGITS and digits.isdigit() else 0


def read_kept_pages(connection: BulkConnection, prefix: str, count: int) -> Iterator[list[Kept]]:
    """Keys that begin with `prefix`, page by page."""
    pattern = prefix.translate(_SPECIAL) + "*"
    cursor: bytes = b"0"
    while True:
        command = ("SCAN", cursor, "MATCH", pattern, "COUNT", count, "TYPE", "string")
        cursor, names = connection.patiently(partial(connection.call, *command))
        if names:
            yield _read_kept(connection, prefix, names)
        if cursor == b"0":
            return


def read_kept(connection: BulkConnection, prefix: str, rests: Sequence[str]) -> Iterator[list[Kept]]:
    """As `read_kept_pages`, of keys whose names are known."""
    for start in range(0, len(rests), _AT_A_TIME):
        yield _read_kept(connection, prefix, [f"{prefix}{rest}".encode() for rest in rests[start : start + _AT_A_TIME]])


def _read_kept(connection: BulkConnection, prefix: str, names: Sequence[bytes]) -> list[Kept]:
    commands = [(what, name) for name in names for what in ("GET", "PTTL")]
    replies = connection.patiently(partial(connection.call_many, commands))
    return [
        (name.decode(errors="replace")[len(prefix) :], value, int(left_ms))
        for name, value, left_ms in zip(names, replies[::2], replies[1::2], strict=True)
        if isinstance(value, bytes)
    ]


def count_rows(connection: BulkConnection, commands: Mapping[str, tuple[str, str]]) -> dict[str, int]:
    """The answers to commands that count."""
    replies = connection.patiently(partial(connection.call_many, list(commands.values())))
    return {name: int(_check_reply(reply)) for name, reply in zip(commands, replies, strict=True)}


def _check_reply(reply: Reply) -> Reply:
    if type(reply) is ReplyError:
        raise CommandError(str(reply))
    return reply
