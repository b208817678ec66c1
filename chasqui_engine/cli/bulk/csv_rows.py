"""Rows of CSV, each checked by itself, so that a bad one does not affect the others."""

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
"""Characters. A longer field is an unclosed quote."""


def csv_rows(file: BinaryIO, name: str) -> Iterator[Row | BadRowError]:
    """Every row as an object of strings, with the header as keys; empty lines are skipped."""
    counted = _Counted(file)
    # A byte that is not UTF-8 is kept as a surrogate, and reported with its row.
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
            yield BrokenSourceError(f"{name} cannot be read from line {began} on: {err}; check for an unclosed quote")
            return
        if lines.ended:
            yield BrokenSourceError(f"the quote opened in line {began} of {name} is never closed")
            return
        if not fields:
            continue
        if header is None:
            header = _check_header(fields, name)
            continue
        number += 1
        yield _row(header, fields, number, counted.read_bytes) or BadRowError(
            f"row {number} of {name} (line {began}) {_describe_error(header, fields)}"
        )


def _check_header(header: list[str], name: str) -> list[str]:
    twice = [field for field, times in Counter(header).items() if times > 1]
    if twice:
        fail(f"the header of {name} names {twice[0]!r} twice", "give each column its own name", exit_code=USAGE)
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


def _describe_error(header: list[str], fields: list[str]) -> str:
    if len(fields) != len(header):
        return f"has {len(fields)} fields, but the header has {len(header)}"
    return "is not UTF-8"


class _Lines:
    """Lines, and whether the last one was exceeded: then the row that asked for more was cut short."""

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
    """Counts the bytes that are read through it."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner: Any = inner
        self.read_bytes = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads what is available, without waiting for more."""
        data = self._inner.read1(len(buffer))
        buffer[: len(data)] = data
        self.read_bytes += len(data)
        return len(data)
