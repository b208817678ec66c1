"""What jobs hold (MessagePack) as JSON: one form for the command line, the dashboard, Spark and Airflow.

| a value | in JSON |
| --- | --- |
| bytes | `{"$bytes": "<base64>"}` |
| NaN, infinity | `null` |
| `datetime`, `date`, `time`, `UUID`, `Decimal`, `timedelta` | as in a job, see `docs/wire.md` |
| a MessagePack timestamp | ISO 8601 in UTC; outside of the years 1 to 9999 `{"$timestamp": [seconds, nanoseconds]}` |
| another extension type | `{"$ext": [type, "<base64>"]}` |
| a key that is not text | the JSON text of its form: `1`, `true`, `{"$bytes":"/w=="}`; of equal keys the last stays |
| a lone surrogate, for which UTF-8 has no bytes | U+FFFD; a NUL too where the target refuses it (`nul="replace"`) |
| what is nested deeper than `MAX_DEPTH` | `{"$truncated": "depth"}` |
| what is beyond `max_size` | `{"$truncated": "size"}` |
| an integer of more digits than Python writes (4,300) | its hexadecimal text |
| anything else that Python has | its text |
"""

from __future__ import annotations

import json
import math
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from chasqui_engine.codec.envelope import Extension, Timestamp, plain_value
from chasqui_engine.values.errors import EncodeError

MAX_DEPTH = 64
"""Deepest nesting of lists and maps: more than people write, and within the stack of every JSON reader."""

Text = Literal["keep", "replace"]
Leaf = Callable[[Any], Any]

_CUT = "…"
_NOTHING = re.compile("(?!)")
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNSAFE = {"keep": _SURROGATES, "replace": re.compile("[\0\ud800-\udfff]")}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEAVES = frozenset((str, int, float, bool, type(None), bytes))
_NESTING = (Mapping, Sequence, Set)
_TEXT_LIKE = (str, bytes, bytearray, memoryview, Extension)
"""Sequences to Python, single values to JSON."""
_ENCODED = (dict, list, tuple)
"""What Python's encoder writes as maps and lists."""


def to_json(
    value: Any,
    *,
    strict: bool = False,
    nul: Text = "keep",
    max_depth: int = MAX_DEPTH,
    max_size: int | None = None,
    leaf: Leaf | None = None,
) -> Any:
    """The nearest value that JSON can hold.

    `max_size` bounds the work: it counts values and the characters of their text. Past a bound is a marker, or
    with `strict` an `EncodeError` is raised. `leaf` replaces each value that is no list, map or text key, to mask it.
    """
    return _Conversion(strict, _UNSAFE[nul], max_depth, max_size, leaf).convert(value)


def from_json(form: Any) -> Any:
    """The value that has this form, where the form says it: `{"$bytes": …}` becomes bytes, all else stays."""
    if isinstance(form, list):
        return [from_json(item) for item in form]
    if not isinstance(form, dict):
        return form
    if form.keys() == {"$bytes"} and isinstance(form["$bytes"], str):
        try:
            return b64decode(form["$bytes"], validate=True)
        except ValueError:
            return form
    return {key: from_json(item) for key, item in form.items()}


def json_text(value: Any, *, indent: int | None = None, compact: bool = False, surrogates: Text = "replace") -> str:
    """The text of `to_json(value)`; callers that escape lone surrogates may keep them."""
    encode = _COMPACT if compact else _encoder(indent)
    unsafe = _SURROGATES if surrogates == "replace" else _NOTHING
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError):
        text = ""
    # Python's encoder alone writes the same text, unless the value is too deep or not valid Unicode.
    if not text or (text.count("[") + text.count("{") > MAX_DEPTH and _is_deeper(value, MAX_DEPTH)):
        text = encode(_Conversion(False, unsafe, MAX_DEPTH, None, None).convert(value))
    return text if _is_unicode(text) else unsafe.sub("\ufffd", text)


def preview(value: Any, max_chars: int, *, indent: int | None = None, leaf: Leaf | None = None) -> str:
    """The first characters of `json_text(value)`, and `…` if there are more.

    It only processes those characters: a value of a megabyte is not traversed.
    """
    # A value counts no more than its characters: everything beyond the bound is behind the cut.
    form = _Conversion(False, _SURROGATES, MAX_DEPTH, max_chars + 1, leaf, cut_text=True).convert(value)
    text = _encoder(indent)(form)
    return text if len(text) <= max_chars else text[:max_chars] + _CUT


class _Conversion:
    """One value on its way to JSON; its recursion ends at `max_depth`."""

    __slots__ = ("_cut_text", "_leaf", "_left", "_max_depth", "_max_size", "_strict", "_unsafe")

    def __init__(
        self,
        strict: bool,
        unsafe: re.Pattern[str],
        max_depth: int,
        max_size: int | None,
        leaf: Leaf | None,
        *,
        cut_text: bool = False,
    ) -> None:
        self._strict = strict
        self._unsafe = unsafe
        self._max_depth = max_depth
        self._max_size = self._left = sys.maxsize if max_size is None else max_size
        self._leaf = leaf
        self._cut_text = cut_text

    def convert(self, value: Any, depth: int = 0) -> Any:
        """The form of a value at a depth."""
        kind = type(value)
        self._left -= 1
        if kind is list or kind is dict or (kind not in _LEAVES and _is_nesting(value)):
            if depth >= self._max_depth:
                return self._too_deep()
            is_map = kind is dict or (kind is not list and isinstance(value, Mapping))
            return self._map(value, depth) if is_map else self._list(value, depth)
        return self._scalar(value if self._leaf is None else self._leaf(value))

    def _list(self, items: Iterable[Any], depth: int) -> list[Any]:
        made = []
        for item in items:
            if self._left <= 0:
                made.append(self._too_large())
                break
            made.append(self.convert(item, depth + 1))
        return made

    def _map(self, items: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, item in items.items():
            if self._left <= 0:
                made |= self._too_large()
                break
            name = self._text(key) if isinstance(key, str) else self.convert(key, depth + 1)
            made[name if isinstance(name, str) else _COMPACT(name)] = self.convert(item, depth + 1)
        return made

    def _scalar(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, int):
            return value if value is None or value.bit_length() <= 64 else _large(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, bytes | bytearray | memoryview):
            return self._base64(bytes(value), lambda text: {"$bytes": text})
        if isinstance(value, Extension):
            return self._base64(value.data, lambda text: {"$ext": [value.code, text]})
        return self._foreign(value)

    def _foreign(self, value: Any) -> Any:
        if isinstance(value, Timestamp):
            return _moment(value.seconds, value.nanoseconds)
        try:
            return self._scalar(plain_value(value))
        except TypeError:
            return self._text(str(value))

    def _text(self, text: str) -> Any:
        room = self._left
        self._left -= len(text)
        if self._left < 0:
            if not self._cut_text:
                return self._too_large()
            text = text[: max(room, 0) + 1]
        return text if "\0" not in text and _is_unicode(text) else self._unsafe.sub("\ufffd", text)

    def _base64(self, data: bytes, form: Callable[[str], Any]) -> Any:
        room = self._left
        self._left -= len(data) * 4 // 3
        if self._left < 0:
            if not self._cut_text:
                return self._too_large()
            data = data[: 3 * (max(room, 0) + 1)]
        return form(b64encode(data).decode())

    def _too_deep(self) -> dict[str, str]:
        if self._strict:
            raise EncodeError(f"cannot be written as JSON: it is nested deeper than {self._max_depth} levels")
        return {"$truncated": "depth"}

    def _too_large(self) -> dict[str, str]:
        if self._strict:
            raise EncodeError(f"cannot be written as JSON: it takes more than {self._max_size} values and characters")
        return {"$truncated": "size"}


def _encoder(indent: int | None, separators: tuple[str, str] | None = None) -> Callable[[Any], str]:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=indent, separators=separators).encode


_COMPACT = _encoder(None, (",", ":"))


def _is_nesting(value: Any) -> bool:
    return isinstance(value, _NESTING) and not isinstance(value, _TEXT_LIKE)


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_deeper(value: Any, depth: int) -> bool:
    """Whether lists and maps are nested deeper than this; takes a third of the time of writing the text."""
    level = [value]
    for _ in range(depth):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, _ENCODED)
        ]
        if not level:
            return False
    return True


def _moment(seconds: int, nanoseconds: int) -> Any:
    try:
        whole = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:
        return {"$timestamp": [seconds, nanoseconds]}
    return whole if not nanoseconds else whole.replace("+", f".{nanoseconds:09}+")


def _large(value: int) -> int | str:
    try:
        str(value)
    except ValueError:
        return hex(value)
    return value
