"""Rows for `chasqui bulk`: JSON lines, CSV and Parquet, from a file or stdin, with how far the reading is."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from chasqui_engine.cli.session import USAGE, fail

FORMATS = ("jsonl", "csv", "parquet")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_PARQUET_ROWS = 1000


class Row(NamedTuple):
    """One row to be made a job."""

    number: int
    """From 1 up."""
    raw: bytes
    """What makes it this row and no other."""
    data: Any
    position: int
    """How far the reading is, in units of `Source.total`."""


class BadRowError(Exception):
    """A row that cannot be read."""


class Source:
    """A file or stdin."""

    def __init__(self, path: str, kind: str | None) -> None:
        self.name = "stdin" if path == "-" else path
        self.kind = kind or _SUFFIXES.get(Path(path).suffix.lower(), "jsonl")
        if self.kind not in FORMATS:
            fail(f"--format is one of {', '.join(FORMATS)}, not {self.kind!r}", "choose one of them", exit_code=USAGE)
        if self.kind == "parquet" and path == "-":
            fail("Parquet cannot be read from stdin", "pass a file", exit_code=USAGE)
        self._path = path
        self.total: int | None = None
        """Bytes, or rows for Parquet; None when nobody knows."""

    def rows(self) -> Iterator[Row | BadRowError]:
        """Every row, or what is wrong with it."""
        if self.kind == "parquet":
            yield from self._parquet()
            return
        with self._open() as file:
            if file.seekable() and file is not sys.stdin.buffer:
                self.total = os.fstat(file.fileno()).st_size
            yield from self._csv(file) if self.kind == "csv" else self._jsonl(file)

    def _open(self) -> BinaryIO:
        if self._path == "-":
            return sys.stdin.buffer
        try:
            return open(self._path, "rb")
        except OSError as err:
            fail(f"{self._path} cannot be read: {err.strerror}", "check the file's name", exit_code=USAGE)

    def _jsonl(self, file: BinaryIO) -> Iterator[Row | BadRowError]:
        read = 0
        for number, line in enumerate(file, 1):
            read += len(line)
            text = line.strip()
            if not text:
                continue
            try:
                yield Row(number, text, json.loads(text), read)
            except ValueError as err:
                yield BadRowError(f"line {number} of {self.name} is not JSON: {err}")

    def _csv(self, file: BinaryIO) -> Iterator[Row | BadRowError]:
        counted = _Counted(file)
        text = io.TextIOWrapper(io.BufferedReader(counted), encoding="utf-8-sig", newline="")
        try:
            for number, row in enumerate(csv.DictReader(text), 1):
                if None in row or None in row.values():
                    yield BadRowError(f"row {number} of {self.name} has not as many fields as the header")
                    continue
                yield Row(number, json.dumps(row, ensure_ascii=False).encode(), row, counted.read_bytes)
        except (UnicodeDecodeError, csv.Error) as err:
            yield BadRowError(f"{self.name} is not CSV in UTF-8: {err}")

    def _parquet(self) -> Iterator[Row]:
        try:
            parquet: Any = import_module("pyarrow.parquet")
        except ImportError:
            fail("Parquet needs pyarrow", "pip install pyarrow, or convert the file to JSON lines")
        try:
            with parquet.ParquetFile(self._path) as file:
                self.total = file.metadata.num_rows
                number = 0
                for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                    for data in map(_packable, batch.to_pylist()):
                        number += 1
                        yield Row(number, json.dumps(data, default=str, ensure_ascii=False).encode(), data, number)
        except OSError as err:
            fail(f"{self._path} cannot be read: {err}", "check the file", exit_code=USAGE)


def _packable(value: Any) -> Any:
    """The same in types that a payload can have: times and decimals as text, the way JSON has them."""
    if isinstance(value, dict):
        return {key: _packable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_packable(inner) for inner in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, Decimal) else value


class _Counted(io.RawIOBase):
    """Counts what is read through it."""

    def __init__(self, inner: BinaryIO) -> None:
        super().__init__()
        self._inner = inner
        self.read_bytes = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads on."""
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        self.read_bytes += len(data)
        return len(data)
