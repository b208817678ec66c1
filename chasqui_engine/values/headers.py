"""Headers: short texts that travel with a job, beside its payload."""

from __future__ import annotations

from collections.abc import Mapping

from chasqui_engine.values.errors import ConfigError

MAX_HEADERS_BYTES = 8192
"""Most bytes that the headers of one job take on the wire."""
RESERVED_PREFIX = "chasqui-"
"""Names with this beginning are the engine's own."""


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers of a job: texts by name. Their size is checked where they are encoded."""
    if not isinstance(headers, Mapping):
        raise ConfigError(f"headers must be a mapping of text to text, got {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"headers: a name must be a text that is not empty, got {name!r}")
        if name.startswith(RESERVED_PREFIX):
            raise ConfigError(f"headers: names that begin with {RESERVED_PREFIX!r} are reserved, got {name!r}")
        if not isinstance(value, str):
            raise ConfigError(f"headers: the value of {name!r} must be text, got {type(value).__name__}: use str(…)")
    return dict(headers)
