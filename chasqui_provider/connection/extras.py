"""Parses the extras of a connection: switches, numbers and TLS options. Errors name the extra."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chasqui_engine import ConfigError

TLS_WORDS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")

_ON, _OFF = ("true", "1", "yes", "on"), ("false", "0", "no", "off", "")
_CERT_REQS = ("required", "optional", "none")
_WHOLE = re.compile(r"[+-]?[0-9]+")


def flag(extras: Mapping[str, Any], name: str) -> bool:
    """A switch; forms and URIs send it as text."""
    text = str(extras.get(name, "")).strip().lower()
    if text not in _ON + _OFF:
        raise ConfigError(f"{name} must be true or false, got {extras[name]!r}")
    return text in _ON


def is_given(extras: Mapping[str, Any], name: str) -> bool:
    """Whether the switch was set; a form sends false for an untouched one."""
    return name in extras and extras[name] is not False


def whole_number(name: str, value: Any) -> int:
    """A whole number; forms and URIs send it as text."""
    text = str(value).strip()
    if not _WHOLE.fullmatch(text):
        raise ConfigError(f"{name} must be a whole number, got {value!r}")
    return int(text)


def tls_query(extras: Mapping[str, Any], *, encrypted: bool, how: str) -> dict[str, str]:
    """The client's options for certificates; `how` says in errors how TLS is turned on."""
    if not encrypted:
        if stray := [word for word in TLS_WORDS if is_given(extras, word)]:
            raise ConfigError(f"{stray[0]} has no effect without TLS: {how}, or leave {stray[0]} out")
        return {}
    query = {word: str(extras[word]) for word in TLS_WORDS if word in extras}
    if query.get("ssl_cert_reqs", "none") not in _CERT_REQS:
        raise ConfigError(f"ssl_cert_reqs must be {', '.join(_CERT_REQS)}, got {query['ssl_cert_reqs']!r}")
    if "ssl_check_hostname" in query:
        query["ssl_check_hostname"] = str(flag(extras, "ssl_check_hostname"))
    return query
