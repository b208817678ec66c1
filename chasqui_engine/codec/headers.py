"""A job's headers ↔ bytes: one MessagePack map, in the field `h` of its entry and under `Q:meta:<job>`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from chasqui_engine.codec.envelope import decode_payload, encode_payload
from chasqui_engine.values.errors import ConfigError, DecodeError, EncodeError
from chasqui_engine.values.headers import MAX_HEADERS_BYTES, RESERVED_PREFIX

_ADDED_MS = f"{RESERVED_PREFIX}added-ms"
_EXPIRES_MS = f"{RESERVED_PREFIX}expires-ms"


class Headers(NamedTuple):
    """What travels with a job."""

    own: dict[str, str]
    """Those that its producer gave it."""
    added_at_ms: int | None
    """When the job was added that they are of: another may have had its id before."""
    expires_at_ms: int | None = None
    """From when on the job does not begin any more."""


def encode_headers(headers: Mapping[str, str], added_at_ms: int, expires_at_ms: int | None = None) -> bytes:
    """Headers as they are stored."""
    fields: dict[str, Any] = {**headers, _ADDED_MS: added_at_ms}
    if expires_at_ms is not None:
        fields[_EXPIRES_MS] = expires_at_ms
    try:
        encoded = encode_payload(fields)
    except EncodeError as err:  # a lone surrogate
        raise ConfigError(f"the headers {err.args[0]}") from err
    if len(encoded) > MAX_HEADERS_BYTES:
        raise ConfigError(
            f"the headers of a job take up to {MAX_HEADERS_BYTES} bytes, got {len(encoded)}: put large values into data"
        )
    return encoded


def decode_headers(data: bytes) -> Headers:
    """The headers in bytes from `encode_headers`. Reserved names of a newer version are passed over."""
    if len(data) > MAX_HEADERS_BYTES:
        raise DecodeError(f"headers take up to {MAX_HEADERS_BYTES} bytes, got {len(data)}")
    fields = decode_payload(data)
    if not isinstance(fields, dict):
        raise DecodeError(f"headers are a map, got {type(fields).__name__}")
    own = {name: value for name, value in fields.items() if not str(name).startswith(RESERVED_PREFIX)}
    if not all(type(name) is str and type(value) is str for name, value in own.items()):
        raise DecodeError("headers are texts by name")
    return Headers(own, _read_ms(fields, _ADDED_MS), _read_ms(fields, _EXPIRES_MS))


def _read_ms(fields: dict[Any, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and type(value) is not int:
        raise DecodeError(f"{name} is a whole number, got {type(value).__name__}")
    return value
