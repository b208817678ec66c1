"""Rows of CSV: each is judged by itself, so that a bad one costs no other."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from chasqui_engine.cli.bulk.rows import BadRowError, BrokenSourceError, Row
from chasqui_engine.cli.session import USAGE, fail

_LONGEST_FIELD = 64 * 2**20
"""Characters. What is longer is rather a quote that nobody closed."""


def csv_rows(file: BinaryIO, name: str) -> Iterator[Row | BadRowError]:
    """Every row as an object of strings, named by the first one; empty lines are none."""
    counted = _Counted(file)
    # A byte that is not UTF-8 is carried along, and found in the row that it is in.
    text = io.TextIOWrapper(io.BufferedReader(counted), encoding="utf-8-sig", errors="surrogateescape", newline="")
    csv.field_size_limit(_LONGEST_FIELD)
    lines = _Lines(text)
    reader = csv.reader(lines)
    header: list[str] | None = None
    number = 0
    while True:
        began = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as err:
            yield BrokenSourceError(f"{name} cannot be read from line {began} on: {err}; is a quote never closed?")
            return
        if lines.ended:
            yield BrokenSourceError(f"the quote that is opened in line {began} of {name} is never closed")
            return
        if not fields:
            continue
        if header is None:
            header = _checked(fields, name)
            continue
        number += 1
        yield _row(header, fields, number, counted.read_bytes) or BadRowError(
            f"row {number} of {name} (line {began}) {_what_is_wrong(header, fields)}"
        )


def _checked(header: list[str], name: str) -> list[str]:
    twice = [field for field, times in Counter(header).items() if times > 1]
    if twice:
        fail(f"the header of {name} names {twice[0]!r} twice", "give each column a name of its own", exit_code=USAGE)
    try:
        "".join(header).encode()
    except UnicodeEncodeError:
        fail(f"the header of {name} is not UTF-8", "convert the file, for example with iconv", exit_code=USAGE)
    return header


def _row(header: list[str], fields: list[str], number: int, position: int) -> Row | None:
    if len(fields) != len(header):
        return None
    data = dict(zip(header, fields, strict=True))
    try:
        return Row(number, json.dumps(data, ensure_ascii=False).encode(), data, position)
    except UnicodeEncodeError:
        return None


def _what_is_wrong(header: list[str], fields: list[str]) -> str:
    if len(fields) != len(header):
        return f"has {len(fields)} fields, and the header {len(header)}"
    return "is not UTF-8"


class _Lines:
    """Lines, and whether there are no more: a row that asked for one more than there is was cut short."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self.ended = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._text)
        except StopIteration:
            self.ended = True
            raise


class _Counted(io.RawIOBase):
    """Counts what is read through it."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner: Any = inner
        self.read_bytes = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads on: what is there, without waiting for more."""
        data = self._inner.read1(len(buffer))
        buffer[: len(data)] = data
        self.read_bytes += len(data)
        return len(data)
