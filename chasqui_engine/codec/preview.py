"""The beginning of a job: enough to show, at a cost independent of its size and shape.

A megabyte of empty lists takes most of a second to decode, with Python's lock held, and 64 MiB. A list of jobs shows a
few hundred characters of each.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgpack

from chasqui_engine.codec.envelope import decode_job, decode_payload
from chasqui_engine.values.errors import DecodeError
from chasqui_engine.values.job import Job

_DEEPEST = 60
_CUT = "…"
_ENVELOPE_FIELDS = 4
_MOST_BESIDE_BYTES = 8 * 1024
"""An id of the longest kind, a time, two counts and a backoff."""
_FIX_MAP, _FIX_LIST, _FIX_TEXT = range(0x80, 0x90), range(0x90, 0xA0), range(0xA0, 0xC0)
_LISTS, _MAPS = frozenset((*_FIX_LIST, 0xDC, 0xDD)), frozenset((*_FIX_MAP, 0xDE, 0xDF))
_TEXT_HEADS = {**dict.fromkeys(_FIX_TEXT, 1), 0xD9: 2, 0xDA: 3, 0xDB: 5}
_BYTES_HEADS = {0xC4: 2, 0xC5: 3, 0xC6: 5}
"""How long the head of a text, or of bytes, is."""


def glimpse_job(envelope: bytes, name: str, most_chars: int | None) -> Job:
    """The job, with up to `chars` characters of its payload; None for all.

    Where it is cut, or nested deeper than 60, there is a `…`.
    """
    if most_chars is None or len(envelope) <= most_chars:
        return decode_job(envelope, name)
    start, end = _payload_in(envelope)
    others = envelope[:start] + b"\xc0" + envelope[end:]
    if len(others) > _MOST_BESIDE_BYTES:
        raise DecodeError(f"what is beside a payload takes up to {_MOST_BESIDE_BYTES} bytes, got {len(others)}")
    # Everything except the payload is validated in the usual place.
    job = decode_job(others, name)
    within = start + _BYTES_HEADS.get(envelope[start], 0)
    return replace(job, payload=_glimpse(envelope[within : min(end, within + _bytes_for(most_chars))], most_chars))


def glimpse_payload(data: bytes, most_chars: int) -> Any:
    """As much of an encoded payload, or of a result, as makes so many characters; a `…` is where it is cut."""
    if len(data) <= most_chars:
        return decode_payload(data)
    return _glimpse(data[: _bytes_for(most_chars)], most_chars)


def _payload_in(envelope: bytes) -> tuple[int, int]:
    """The start and end of the payload."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(envelope)
    try:
        length = unpacker.read_array_header()
        unpacker.skip()
        start = unpacker.tell()
        unpacker.skip()
    except Exception as err:
        raise DecodeError(f"not an envelope: {err or type(err).__name__}") from err
    if length < _ENVELOPE_FIELDS:
        raise DecodeError(f"an envelope is an array of {_ENVELOPE_FIELDS} or more, got one of {length}")
    return start, unpacker.tell()


def _bytes_for(chars: int) -> int:
    """A character of text takes up to four bytes; a number, with what is beside it, three for each of its own."""
    return 4 * chars + 16


def _glimpse(data: bytes, most_chars: int) -> Any:
    try:
        # The shortest list in a list, and the number in it, have five characters between them.
        return _Beginning(data, most_chars // 2).value(0)
    except msgpack.OutOfData:
        return _CUT
    except Exception as err:
        raise DecodeError(f"not valid MessagePack: {err or type(err).__name__}") from err


class _Beginning:
    """Reads until the bytes end, or so many values are read."""

    def __init__(self, data: bytes, most_values: int) -> None:
        self._data = data
        self._left = most_values
        self._unpacker = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
        self._unpacker.feed(data)
        self._is_cut = False

    def value(self, depth: int) -> Any:
        """The next value; raises `OutOfData` where there is none."""
        at = self._unpacker.tell()
        self._left -= 1
        if at >= len(self._data) or self._left < 0:
            raise msgpack.OutOfData
        head = self._data[at]
        if head not in _LISTS and head not in _MAPS:
            return self._single(at, head)
        if depth > _DEEPEST:
            self._unpacker.skip()
            return _CUT
        return self._list(depth) if head in _LISTS else self._map(depth)

    def _list(self, depth: int) -> list[Any]:
        made: list[Any] = []
        try:
            for _ in range(self._unpacker.read_array_header()):
                made.append(self.value(depth + 1))
                if self._is_cut:
                    break
        except msgpack.OutOfData:
            self._is_cut = True
            made.append(_CUT)
        return made

    def _map(self, depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        key: Any = _CUT
        try:
            for _ in range(self._unpacker.read_map_header()):
                key = self.value(depth + 1)
                made[key] = self.value(depth + 1)
                key = _CUT
                if self._is_cut:
                    break
        except msgpack.OutOfData:
            self._is_cut = True
            made[key] = _CUT
        return made

    def _single(self, at: int, head: int) -> Any:
        try:
            return self._unpacker.unpack()
        except msgpack.OutOfData:
            begun = self._data[at + (_TEXT_HEADS.get(head) or _BYTES_HEADS.get(head, 0)) :]
            if head in _TEXT_HEADS:
                self._is_cut = True
                return begun.decode(errors="ignore") + _CUT
            if head in _BYTES_HEADS:
                self._is_cut = True
                return begun + _CUT.encode()
            raise
