"""The fence that keeps rows of a bulk write from being written twice: a hash per write with the chunks written so far.

Beside the chunks the hash says which run began the write, how large its chunks are and, once a run has ended, how many
partitions it had. Chunks that a later run finds missing wait in a hash of that run's own, as the commands that would
write them, until it is certain that they belong there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.client.link import Argument, CommandError
from chasqui_engine._redis.client.replies import ReplyError
from chasqui_engine._redis.commands.keys import QueueKeys

_RUN, _SIZE, _PARTITIONS = "run", "size", "partitions"
_PAGE = 50
"""Waiting chunks looked up per round trip."""
_WAIT_S = 86_400
"""How long waiting chunks are kept after the last one; those of a task that outlives its run are never read."""


@dataclass(frozen=True, slots=True)
class Begun:
    """How a write was begun."""

    run: str
    chunk_size: int
    partitions: int | None
    """None if no run has ended so far."""


def fence_key(keys: QueueKeys, write_id: str) -> str:
    """The hash of the chunks of a write that were added to the queue."""
    return f"{keys.prefix}:bulk:{write_id}"


def ids_key(keys: QueueKeys, write_id: str) -> str:
    """The set of ids of a write whose rows are recognised by id."""
    return f"{fence_key(keys, write_id)}:ids"


def begin(connection: BulkConnection, keys: QueueKeys, write_id: str, run: str, chunk_size: int, ttl_s: int) -> Begun:
    """Begins a write unless it was begun before; returns how it was begun."""
    key = fence_key(keys, write_id)
    commands: list[tuple[Argument, ...]] = [
        ("HSETNX", key, _RUN, run),
        ("HSETNX", key, _SIZE, chunk_size),
        ("EXPIRE", key, ttl_s),
    ]
    for reply in connection.patiently(partial(connection.call_many, commands)):
        if type(reply) is ReplyError:
            raise CommandError(str(reply))
    return how_begun(connection, keys, write_id)


def how_begun(connection: BulkConnection, keys: QueueKeys, write_id: str) -> Begun:
    """How an existing write was begun."""
    command = ("HMGET", fence_key(keys, write_id), _RUN, _SIZE, _PARTITIONS)
    run, size, partitions = connection.patiently(partial(connection.call, *command))
    return Begun(run.decode(), int(size), None if partitions is None else int(partitions))


def end_write(connection: BulkConnection, keys: QueueKeys, write_id: str, partitions: int) -> None:
    """Records how many partitions the write has, for later runs; a write that added nothing is not recorded."""
    key = fence_key(keys, write_id)
    if connection.call("EXISTS", key):
        connection.call("HSETNX", key, _PARTITIONS, partitions)


def list_written_chunks(connection: BulkConnection, keys: QueueKeys, write_id: str) -> set[tuple[int, int]]:
    """Partition and number of each chunk that was added."""
    fields = connection.call("HKEYS", fence_key(keys, write_id))
    places = (field.decode().partition(".") for field in fields)
    return {(int(partition), int(number)) for partition, dot, number in places if dot}


def _waiting_key(keys: QueueKeys, write_id: str, run: str) -> str:
    return f"{fence_key(keys, write_id)}:waiting:{run}"


def put_aside(connection: BulkConnection, keys: QueueKeys, write_id: str, run: str, chunk: str, command: bytes) -> None:
    """Keeps a chunk that may turn out not to belong to the write."""
    key = _waiting_key(keys, write_id, run)
    connection.patiently(lambda: connection.call("HSET", key, chunk, command))
    connection.patiently(lambda: connection.call("EXPIRE", key, _WAIT_S))


def digest_of(connection: BulkConnection, keys: QueueKeys, write_id: str, chunk: str) -> str | None:
    """The digest of a chunk that was added; None if it was not."""
    found = connection.patiently(lambda: connection.call("HGET", fence_key(keys, write_id), chunk))
    return None if found is None else found.decode()


def waiting(
    connection: BulkConnection, keys: QueueKeys, write_id: str, run: str, chunks: Mapping[str, int]
) -> Iterator[tuple[str, bytes]]:
    """The chunks of this run that were put aside, in the order given."""
    key = _waiting_key(keys, write_id, run)
    names = list(chunks)
    for start in range(0, len(names), _PAGE):
        page = names[start : start + _PAGE]
        found = connection.patiently(partial(connection.call, "HMGET", key, *page))
        yield from ((name, command) for name, command in zip(page, found, strict=True) if command is not None)


def drop_waiting(connection: BulkConnection, keys: QueueKeys, write_id: str, run: str) -> None:
    """Deletes the chunks that this run put aside."""
    connection.call("UNLINK", _waiting_key(keys, write_id, run))


def shorten(connection: BulkConnection, keys: QueueKeys, write_id: str, ttl_s: int) -> None:
    """Lets the fence of a finished write expire; a straggling copy of a task may still write."""
    connection.call("EXPIRE", fence_key(keys, write_id), ttl_s)
    connection.call("EXPIRE", ids_key(keys, write_id), ttl_s)


def drop(connection: BulkConnection, keys: QueueKeys, write_id: str) -> None:
    """Removes the fence of a write that can never be repeated."""
    connection.call("UNLINK", fence_key(keys, write_id), ids_key(keys, write_id))
