"""The sources of `chasqui bulk`: JSON lines, CSV and Parquet, from a file or a pipe."""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from chasqui_engine.cli.bulk.csv_rows import csv_rows
from chasqui_engine.cli.bulk.rows import BadRowError, BrokenSourceError, Row
from chasqui_engine.cli.session import USAGE, fail

FORMATS = ("jsonl", "csv", "parquet")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_PARQUET_ROWS = 1000
_ONE_PER_LINE = "write one value per line, as jq -c '.[]' does"


class Source:
    """A file or a pipe."""

    def __init__(self, path: str, kind: str | None) -> None:
        self.name = "stdin" if path == "-" else path
        self.kind = kind or _SUFFIXES.get(Path(path).suffix.lower(), "jsonl")
        if self.kind not in FORMATS:
            fail(f"--format is one of {', '.join(FORMATS)}, not {self.kind!r}", "choose one of them", exit_code=USAGE)
        self._file = _open(path)
        self._size = _size_of(self._file)
        self.total: int | None = None
        """Bytes, or rows for Parquet; None when it is unknown."""

    @property
    def may_wait(self) -> bool:
        """Whether the next row may take long: that of a pipe may, that of a file does not."""
        return self._size is None

    def locate(self, number: int) -> str:
        """The position of a row, for people."""
        return f"{'line' if self.kind == 'jsonl' else 'row'} {number} of {self.name}"

    def rows(self) -> Iterator[Row | BadRowError]:
        """Every row, or the error in its place."""
        with self._file as file:
            if self.kind == "parquet":
                yield from self._parquet(file)
                return
            self.total = self._size
            yield from csv_rows(file, self.name) if self.kind == "csv" else self._jsonl(file)

    def _jsonl(self, file: BinaryIO) -> Iterator[Row | BadRowError]:
        read = 0
        found = 0
        array: Row | None = None
        for number, line in enumerate(file, 1):
            read += len(line)
            text = line.strip()
            if not text:
                continue
            if array is not None:
                yield array
                array = None
            found += 1
            row = self._json(number, text, read)
            # Alone in a file, an array of objects was meant as many jobs; among other lines it is one.
            if found == 1 and isinstance(row, Row) and _is_array_of_objects(row.data):
                array = row
            else:
                yield row
        if array is not None:
            problem = f"{self.name} is one JSON array of {len(array.data):,}, which would be one job"
            yield BrokenSourceError(f"{problem}: {_ONE_PER_LINE}")

    def _json(self, number: int, text: bytes, read: int) -> Row | BadRowError:
        try:
            return Row(number, text, json.loads(text), read)
        except RecursionError:
            return BadRowError(f"{self.locate(number)} is nested too deeply")
        except ValueError as err:
            advice = f"; of an array over several lines, {_ONE_PER_LINE}" if number == 1 and text[:1] == b"[" else ""
            return BadRowError(f"{self.locate(number)} is not JSON: {err}{advice}")

    def _parquet(self, file: BinaryIO) -> Iterator[Row | BadRowError]:
        try:
            arrow: Any = import_module("pyarrow")
            parquet: Any = import_module("pyarrow.parquet")
        except ImportError:
            fail("Parquet needs pyarrow", "pip install pyarrow, or convert the file to JSON lines")
        number = 0
        try:
            with _seekable(file) as whole, parquet.ParquetFile(whole) as opened:
                self.total = opened.metadata.num_rows
                for batch in opened.iter_batches(batch_size=_PARQUET_ROWS):
                    for data in map(_packable, batch.to_pylist()):
                        number += 1
                        yield Row(number, json.dumps(data, default=str, ensure_ascii=False).encode(), data, number)
        except (OSError, arrow.ArrowException) as err:
            if number == 0:
                fail(f"{self.name} cannot be read as Parquet: {err}", "check the file", exit_code=USAGE)
            yield BrokenSourceError(f"{self.name} cannot be read after row {number}: {err}")


def _open(path: str) -> BinaryIO:
    if path == "-":
        return _stdin()
    try:
        return open(path, "rb")
    except OSError as err:
        fail(f"{path} cannot be read: {err.strerror}", "check the file's name", exit_code=USAGE)


def _stdin() -> BinaryIO:
    """Standard input, but not through `sys.stdin`: a thread that still reads it would break the exit."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except io.UnsupportedOperation:
        return sys.stdin.buffer


def _size_of(file: BinaryIO) -> int | None:
    """Total bytes; None when it is no regular file."""
    try:
        found = os.fstat(file.fileno())
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _seekable(file: BinaryIO) -> BinaryIO:
    """The same file, or a copy of all that a pipe gives: the index of a Parquet file is at its end."""
    if file.seekable():
        return file
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    shutil.copyfileobj(file, spool)
    spool.seek(0)
    return spool


def _is_array_of_objects(data: Any) -> bool:
    return isinstance(data, list) and bool(data) and all(isinstance(one, dict) for one in data)


def _packable(value: Any) -> Any:
    """The same in types that a payload can hold: times and decimals as text."""
    if isinstance(value, dict):
        return {key: _packable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_packable(inner) for inner in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, Decimal) else value
