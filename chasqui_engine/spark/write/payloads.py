"""The payload column as MessagePack, and errors that name the row. Needs no Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from typing import Any, TypeVar

import pyarrow as pa

from chasqui_engine.codec.checks import first_malformed
from chasqui_engine.codec.envelope import encode_payload, encode_payloads
from chasqui_engine.values.errors import ChasquiError, ConfigError, EncodeError

_Value = TypeVar("_Value")
_Made = TypeVar("_Made")

_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]


@contextmanager
def at_row(row: int, column: str) -> Iterator[None]:
    """Adds to an error its row and column."""
    try:
        yield
    except ChasquiError as err:
        raise ConfigError(f"column {column}, row {row} of its partition (the first is 0): {err.args[0]}") from err


def map_rows(values: Sequence[_Value], make: Callable[[_Value], _Made], column: str, first: int) -> list[_Made]:
    """`make` of each value; an error names its row."""
    try:
        return [make(value) for value in values]
    except ChasquiError:
        # Searched for only now, so that valid rows do not pay for it.
        for row, value in enumerate(values):
            with at_row(first + row, column):
                make(value)
        raise


def encode_column(column: pa.Array, payload_format: str | None, first: int) -> list[bytes]:
    """One MessagePack value per row; `first` is the number of the first row, for errors."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        if payload_format != "bytes":
            return _check_packed(column.to_pylist(), first)
        values = column.to_pylist()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = column.to_pylist()
        if payload_format != "text":
            values = map_rows(values, _parse_json, "payload", first)
    else:
        values = to_plain_values(column)
    try:
        return encode_payloads(values)
    except EncodeError:
        return map_rows(values, encode_payload, "payload", first)


def _check_packed(values: list[bytes | None], first: int) -> list[bytes]:
    packed = [b"\xc0" if value is None else value for value in values]
    bad = first_malformed(packed)
    if bad is not None:
        with at_row(first + bad, "payload"):
            raise ConfigError(
                "is binary that is not one MessagePack value, so no worker could read it; "
                ".option('payloadFormat', 'bytes') takes it as bytes"
            )
    return packed


def _parse_json(text: str | None) -> Any:
    if text is None:
        return None
    # The scanner alone costs a third of `loads`, which is left to judge what the scanner does not read to its end.
    try:
        value, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        value, end = None, -1
    if end == len(text):
        return value
    try:
        return json.loads(text)
    except ValueError as err:
        raise ConfigError(
            f"payload is text that is not JSON ({err}); .option('payloadFormat', 'text') takes it as text"
        ) from err
    except RecursionError as err:
        raise ConfigError("payload is JSON that is nested too deeply for a job") from err


def to_plain_values(column: pa.Array) -> list[Any]:
    """A column as values that MessagePack holds: structs and maps as dicts, times as ISO 8601, decimals as text."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [kind.field(n).name for n in range(kind.num_fields)]
        parts = [to_plain_values(column.field(n)) for n in range(kind.num_fields)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)] if parts else [{}] * len(column)
        if not column.null_count:
            return rows
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    values = column.to_pylist()
    convert = _converter(kind)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """The conversion of one value; None where values are plain already."""
    if pa.types.is_map(kind):
        of_key, of_item = _converter(kind.key_type) or _same, _converter(kind.item_type) or _same
        return lambda pairs: {of_key(key): None if item is None else of_item(item) for key, item in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_value = _converter(kind.value_type)
        return None if of_value is None else lambda items: [None if item is None else of_value(item) for item in items]
    if pa.types.is_struct(kind):
        inner = {kind.field(n).name: _converter(kind.field(n).type) or _same for n in range(kind.num_fields)}
        return lambda row: {name: None if row[name] is None else convert(row[name]) for name, convert in inner.items()}
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return _to_text
    return None


def _same(value: Any) -> Any:
    return value


def _to_text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime | date | time) else str(value)
