"""Hostile entries in portions, and what must hold of whatever is made of them: without Spark, for the provider too."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from chasqui_engine.payload_json import MAX_DEPTH
from tests.support.hostile.entries import Entry, entry

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1000
"""Entries that are held at once."""
_MARKERS_DEEP = 2
"""`{"$ext": [type, text]}` stands for one value, however deep that was."""


def chunks(seed: int, count: int, place: str) -> Iterator[list[Entry]]:
    """`count` hostile entries for a place, some at a time."""
    chance = random.Random(f"{seed}-{place}")
    for start in range(0, count, CHUNK):
        yield [entry(chance, place, number) for number in range(start, min(start + CHUNK, count))]


def fields_of(one: Entry) -> dict[bytes, bytes]:
    """The fields of a stream's entry, as a server gives them."""
    return {_bytes(key): _bytes(value) for key, value in one.data.items()}


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


def check_json(form: Any, *, nul: bool = False, around: int = 0) -> None:
    """What stands for a payload, with so many levels around it, is JSON that every reader and database can hold."""
    text = json.dumps(form, allow_nan=False)
    assert nul or "\\u0000" not in text.replace("\\\\", "")
    assert json.loads(text) == form
    level, depth = [form], -1
    while level:
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _items(outer)]
        depth += 1
    assert depth <= MAX_DEPTH + _MARKERS_DEEP + around


def _items(outer: Any) -> Any:
    return outer.values() if isinstance(outer, dict) else outer
