"""Checks the columns of a write, on the driver and before anything is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chasqui_engine.spark.options import WriteOptions
from chasqui_engine.values.errors import ConfigError

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TEXT = ("string",)
_KINDS: dict[str, tuple[str, ...]] = {
    "name": _TEXT,
    "payload": ("struct", "map", "binary", "string"),
    "id": _TEXT,
    "delay_ms": _WHOLE,
    "run_at": ("timestamp",),
    "attempts": _WHOLE,
    "backoff_kind": _TEXT,
    "backoff_delay_ms": _WHOLE,
    "backoff_max_delay_ms": _WHOLE,
    "backoff_multiplier": ("double", "float"),
    "backoff_jitter_ms": _WHOLE,
}
_PLAIN = {
    *("void", "null", "boolean", "byte", "short", "integer", "long", "float", "double", "decimal"),
    *("string", "char", "varchar", "binary", "date", "time", "timestamp", "timestamp_ntz"),
}
"""Types of single values that a payload may hold at any depth, as Spark names them in JSON."""
_FORMATS = {"msgpack": "binary", "bytes": "binary", "json": "string", "text": "string"}


def check_schema(columns: Mapping[str, str], options: WriteOptions) -> None:
    """Raises `ConfigError` unless the columns, by Spark's short type names, are those of jobs."""
    for name, kind in columns.items():
        if name not in _KINDS:
            raise ConfigError(f"unknown column {name!r}; a write takes {', '.join(_KINDS)}")
        short = kind.partition("<")[0].partition("(")[0]
        if short not in _KINDS[name]:
            raise ConfigError(f"column {name!r} must be {' or '.join(_KINDS[name])}, not {kind}")
    for needed in ("name", "payload"):
        if needed not in columns:
            raise ConfigError(f"a write needs the column {needed!r}")
    wanted = options.payload_format
    if wanted is not None and not columns["payload"].startswith(_FORMATS[wanted]):
        raise ConfigError(f"payloadFormat={wanted} is for a payload of {_FORMATS[wanted]}, not {columns['payload']}")


def check_payload(kind: Any, path: str = "payload") -> None:
    """Raises `ConfigError` if a job cannot hold a type, in Spark's JSON form; `path` leads to it."""
    if isinstance(kind, str):
        if kind.partition("(")[0] not in _PLAIN:
            raise ConfigError(f"column {path} is {kind}, which a job cannot hold: cast it, to string for example")
        return
    if kind["type"] == "struct":
        for field in kind["fields"]:
            check_payload(field["type"], f"{path}.{field['name']}")
    elif kind["type"] == "array":
        check_payload(kind["elementType"], f"{path}[]")
    elif kind["type"] == "map":
        if not isinstance(kind["keyType"], str):
            keys = kind["keyType"]["type"]
            raise ConfigError(f"column {path} is a map with keys of {keys}; make them text or numbers")
        check_payload(kind["keyType"], f"{path} (its keys)")
        check_payload(kind["valueType"], f"{path}[]")
    else:
        raise ConfigError(f"column {path} is {kind['type']}, which a job cannot hold")
