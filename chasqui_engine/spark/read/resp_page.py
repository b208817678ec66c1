"""A page of `XRANGE` as the server sends it, parsed with numpy: no Python object per entry or field.

The page is split at its line breaks, and then everything the protocol says is checked: every `*n` is where the one
before says that the next begins, every `$n` is followed by a line of n bytes. A value that contains a line break, or
begins with an asterisk, fails one of these checks; such a page is parsed by hiredis instead. By induction from the
first line, a page that passes is parsed exactly as by hiredis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_CR, _LF, _STAR, _DOLLAR, _ZERO = 13, 10, 42, 36, np.uint8(48)
_WORD = 8
_LONGEST_NAME = 2 * _WORD
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], dtype=np.uint64)
"""For the first n bytes of a word."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Pieces of a page: where each begins, and how long it is."""

    starts: Ints
    lengths: Ints


@dataclass(frozen=True, slots=True)
class Page:
    """A page whose structure was checked."""

    data: Bytes
    """The page, and some zero bytes after it."""
    count: int
    ids: Texts
    field_entry: Ints
    """Per field: the number of its entry."""
    names: Texts
    values: Texts

    def first_id(self) -> str:
        """The id of the first entry."""
        return self._id(0)

    def last_id(self) -> str:
        """The id of the last entry."""
        return self._id(-1)

    def _id(self, index: int) -> str:
        start, length = int(self.ids.starts[index]), int(self.ids.lengths[index])
        return self.data[start : start + length].tobytes().decode()


def take_apart(raw: bytes | bytearray) -> Page | None:
    """The structure of a page; None if it is not plain enough, and hiredis has to parse it."""
    size = len(raw)
    data = np.zeros(size + _LONGEST_NAME, dtype=np.uint8)
    data[:size] = np.frombuffer(raw, dtype=np.uint8)
    breaks = np.flatnonzero(data[:size] == _LF)
    if not len(breaks) or breaks[0] == 0 or breaks[-1] != size - 1 or not (data[breaks - 1] == _CR).all():
        return None
    starts = np.concatenate((np.zeros(1, dtype=np.int64), breaks[:-1] + 1))
    lines = Texts(starts, breaks - 1 - starts)
    kinds = data[lines.starts]
    return _entries(data, lines, kinds)


def _entries(data: Bytes, lines: Texts, kinds: Bytes) -> Page | None:
    marks = np.flatnonzero(kinds == _STAR)
    if not len(marks) or marks[0] != 0:
        return None
    sizes = _numbers(data, lines, marks)
    if sizes is None or len(marks) != 1 + 2 * sizes[0]:
        return None
    heads, lists, sizes_of_lists = marks[1::2], marks[2::2], sizes[2::2]
    if not (sizes[1::2] == 2).all() or not (lists == heads + 3).all() or (sizes_of_lists % 2).any():
        return None
    ends = lists + 1 + 2 * sizes_of_lists
    expected = np.concatenate((np.ones(1, dtype=np.int64), ends))
    if not (heads == expected[:-1]).all() or expected[-1] != len(lines.starts):
        return None
    strings = _strings(data, lines, kinds)
    if strings is None:
        return None
    return _fields(data, len(heads), strings, sizes_of_lists)


def _strings(data: Bytes, lines: Texts, kinds: Bytes) -> Texts | None:
    """All strings of the page in order, if each is as long as announced."""
    rest = np.flatnonzero(kinds != _STAR)
    heads, bodies = rest[::2], rest[1::2]
    if len(heads) != len(bodies) or not (kinds[heads] == _DOLLAR).all() or not (bodies == heads + 1).all():
        return None
    announced = _numbers(data, lines, heads)
    lengths = lines.lengths[bodies]
    if announced is None or not (announced == lengths).all():
        return None
    return Texts(lines.starts[bodies], lengths)


def _fields(data: Bytes, count: int, strings: Texts, sizes_of_lists: Ints) -> Page:
    per_entry = sizes_of_lists + 1
    id_places = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(per_entry)[:-1])) if count else per_entry
    is_id = np.zeros(len(strings.starts), dtype=bool)
    is_id[id_places] = True
    starts, lengths = strings.starts[~is_id], strings.lengths[~is_id]
    return Page(
        data=data,
        count=count,
        ids=Texts(strings.starts[is_id], strings.lengths[is_id]),
        field_entry=np.repeat(np.arange(count, dtype=np.int64), sizes_of_lists // 2),
        names=Texts(starts[::2], lengths[::2]),
        values=Texts(starts[1::2], lengths[1::2]),
    )


def _numbers(data: Bytes, lines: Texts, which: Ints) -> Ints | None:
    """The numbers after the first byte of some lines; None if one of them is not a number."""
    starts, digits = lines.starts[which] + 1, lines.lengths[which] - 1
    longest = int(np.max(digits, initial=0))
    if (digits < 1).any() or longest > 15:
        return None
    # Most have one digit or two, so those with more are selected digit by digit. Bytes below "0" wrap around.
    figures = data[starts] - _ZERO
    if (figures > 9).any():
        return None
    values = figures.astype(np.int64)
    for digit in range(1, longest):
        longer = np.flatnonzero(digits > digit)
        figures = data[starts[longer] + digit] - _ZERO
        if (figures > 9).any():
            return None
        values[longer] = values[longer] * 10 + figures
    return values


def find_fields(page: Page, wanted: Iterable[str]) -> dict[str, tuple[Ints, Texts]]:
    """For each wanted field: the entries that have it, and its values there. The last one counts if there are two."""
    everywhere = np.arange(len(page.names.starts), dtype=np.int64)
    first = _words(page, everywhere, 0)
    found = {}
    for name in wanted:
        text = name.encode()
        head, tail = (int.from_bytes(part.ljust(_WORD, b"\0"), "little") for part in (text[:_WORD], text[_WORD:]))
        hits = np.flatnonzero(first == head)
        exact = page.names.lengths[hits] == len(text)
        if tail:
            exact &= _words(page, hits, _WORD) == tail
        hits = hits[exact]
        entries = page.field_entry[hits]
        if len(entries) > 1:
            keep = np.append(entries[1:] != entries[:-1], True)
            entries, hits = entries[keep], hits[keep]
        found[name] = entries, Texts(page.values.starts[hits], page.values.lengths[hits])
    return found


def _words(page: Page, which: Ints, offset: int) -> npt.NDArray[np.uint64]:
    """Eight bytes of some fields' names as one number, zeros after the name's end."""
    left = np.clip(page.names.lengths[which] - offset, 0, _WORD)
    places = np.minimum(page.names.starts[which] + offset, len(page.data) - _WORD)
    words: npt.NDArray[np.uint64] = _blocks(page.data, "<u8", _WORD)[places]
    return words & _MASKS[left]


def _blocks(data: Bytes, kind: str, length: int) -> npt.NDArray[Any]:
    """The block of that length at each byte of a page: a view, nothing is copied."""
    return np.ndarray((len(data) - length + 1,), kind, data, strides=(1,))


def arrow_binary(page: Page, entries: Ints, texts: Texts) -> pa.Array:
    """A column of bytes, one per entry of the page; null where an entry does not have the field."""
    offsets = np.zeros(page.count + 1, dtype=np.int32)
    validity = None
    if len(entries) == page.count:
        np.cumsum(texts.lengths, out=offsets[1:])
    else:
        present = np.zeros(page.count, dtype=bool)
        present[entries] = True
        validity = pa.py_buffer(np.packbits(present, bitorder="little"))
        lengths = np.zeros(page.count, dtype=np.int64)
        lengths[entries] = texts.lengths
        np.cumsum(lengths, out=offsets[1:])
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(_gather(page.data, texts))]
    return pa.Array.from_buffers(pa.binary(), page.count, buffers, page.count - len(entries))


def _gather(data: Bytes, texts: Texts) -> Bytes:
    """The texts one after the other."""
    if not len(texts.starts):
        return data[:0]
    length = int(texts.lengths[0])
    if length and (texts.lengths == length).all():
        # Ids and times are all of one length, and are copied as blocks.
        flat: Bytes = _blocks(data, f"V{length}", length)[texts.starts].view(np.uint8)
        return flat
    ends = np.cumsum(texts.lengths)
    sources = np.repeat(texts.starts - (ends - texts.lengths), texts.lengths) + np.arange(ends[-1], dtype=np.int64)
    scattered: Bytes = data[sources]
    return scattered


def arrow_text(page: Page, entries: Ints, texts: Texts) -> pa.Array:
    """As `arrow_binary`, as text; bytes that are no UTF-8 are replaced."""
    return as_text_array(arrow_binary(page, entries, texts))


def as_text_array(column: pa.Array) -> pa.Array:
    """Bytes as text; what is not UTF-8 is replaced."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if v is None else v.decode(errors="replace") for v in column.to_pylist()], pa.string())


def arrow_int(column: pa.Array, kind: Any) -> pa.Array:
    """Text as numbers, as Arrow reads them; null where it is none."""
    try:
        return pc.cast(column, kind)
    except pa.ArrowInvalid:
        # One by one, and still by Arrow: whether a text is a number must not depend on its neighbours.
        return pa.array([_int_or_none(text, kind) for text in column], kind)


def _int_or_none(text: pa.Scalar, kind: Any) -> Any:
    try:
        return pc.cast(text, kind).as_py()
    except pa.ArrowInvalid:
        return None


def all_ids(page: Page) -> pa.Array:
    """The ids of the page's entries."""
    return arrow_text(page, np.arange(page.count, dtype=np.int64), page.ids)
