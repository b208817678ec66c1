"""Whether bytes are MessagePack, without making values of them."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack


def first_malformed(values: Sequence[bytes]) -> int | None:
    """The index of the first that is not exactly one MessagePack value; None if all are."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(b"".join(values))
    skip, tell = unpacker.skip, unpacker.tell
    end = 0
    for number, value in enumerate(values):
        end += len(value)
        try:
            skip()
        except (msgpack.OutOfData, ValueError):
            return number
        if tell() != end:
            return number
    return None
