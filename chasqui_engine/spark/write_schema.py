"""What columns a write may have: checked on the driver, before anything is written. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from chasqui_engine.errors import ConfigError
from chasqui_engine.spark.options import WriteOptions

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
_FORMATS = {"msgpack": "binary", "bytes": "binary", "json": "string", "text": "string"}


def check_schema(columns: Mapping[str, str], options: WriteOptions) -> None:
    """Raises `ConfigError` where the columns, by Spark's short type names, are not those of jobs."""
    for name, kind in columns.items():
        if name not in _KINDS:
            raise ConfigError(f"column {name!r} is none of a job's; a write takes {', '.join(_KINDS)}")
        short = kind.partition("<")[0].partition("(")[0]
        if short not in _KINDS[name]:
            raise ConfigError(f"column {name!r} must be {' or '.join(_KINDS[name])}, not {kind}")
    for needed in ("name", "payload"):
        if needed not in columns:
            raise ConfigError(f"a write needs the column {needed!r}")
    wanted = options.payload_format
    if wanted is not None and not columns["payload"].startswith(_FORMATS[wanted]):
        raise ConfigError(f"payloadFormat={wanted} is for a payload of {_FORMATS[wanted]}, not {columns['payload']}")
