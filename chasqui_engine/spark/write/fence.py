"""The fence of a write, by which each row is added once: names of writes and chunks, and digests of rows. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.validation import check_queue_name


@dataclass(frozen=True, slots=True)
class WriteRun:
    """One run of a write. Run again, as the open batch of a restarted stream is, it is the same write."""

    write_id: str
    id: str


def stream_write_id(query_id: str, batch_id: int | str) -> str:
    """The id of the write of one micro-batch: the same after a restart from the checkpoint."""
    return f"{query_id}:{batch_id}"


def chunk_name(partition: int, number: int) -> str:
    """The name of a chunk within its write."""
    return f"{partition}.{number}"


def digest(names: Iterable[str], payloads: Iterable[bytes], rest: object = None) -> str:
    """The digest of a chunk's rows, without ids that were minted for them."""
    state = hashlib.blake2b(digest_size=12)
    state.update("\0".join(names).encode())
    state.update(b"\0")
    # The lengths too, so that rows cannot trade bytes with their neighbours.
    packed = list(payloads)
    state.update(repr([len(payload) for payload in packed]).encode())
    state.update(b"".join(packed))
    if rest is not None:
        state.update(repr(rest).encode())
    return state.hexdigest()


def check_write_id(write_id: str) -> str:
    """The id of a write becomes part of a key."""
    try:
        return check_queue_name(write_id, "writeId")
    except ConfigError as err:
        raise ConfigError(f"writeId: {err.args[0]}") from err
