"""Connections in the environment, read as Airflow reads them, where Airflow need not be installed."""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import parse_qsl, unquote

from chasqui_engine import ConfigError
from chasqui_provider.connection.fields import ConnectionFields

_EXTRA = "__extra__"
_CONNECTION_SCHEMES = ("chasqui", "redis")
"""Connection types. A URI with another scheme is the server's URL itself."""


def variable_of(conn_id: str) -> str:
    """The variable in which Airflow looks for a connection."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def find_in_environment(conn_id: str) -> ConnectionFields | None:
    """A connection that the environment holds, as a URI or as JSON."""
    stored = os.environ.get(variable_of(conn_id), "").strip()
    if not stored:
        return None
    if stored.startswith("{"):
        return _of_json(conn_id, stored)
    scheme, separator, rest = stored.partition("://")
    if not separator:
        raise ConfigError(f"connection {conn_id!r} is neither a URI nor JSON")
    if scheme not in _CONNECTION_SCHEMES:
        return ConnectionFields(conn_id, extra_dejson={"url": stored})
    return _of_uri(conn_id, scheme, rest)


def _of_json(conn_id: str, stored: str) -> ConnectionFields:
    try:
        given = json.loads(stored)
        extra = given.get("extra") or {}
        extra = json.loads(extra) if isinstance(extra, str) else extra
    except (ValueError, AttributeError):
        # The text itself is never shown: it may contain a password.
        raise ConfigError(f"connection {conn_id!r} begins like JSON, but is not valid JSON of Airflow") from None
    plain = {name: given.get(name) for name in ("conn_type", "host", "port", "login", "password", "schema")}
    return ConnectionFields(conn_id, **plain, extra_dejson=extra)


def _of_uri(conn_id: str, conn_type: str, rest: str) -> ConnectionFields:
    before, _, query = rest.partition("?")
    address, _, schema = before.partition("/")
    login, _, hosts = address.rpartition("@")
    user, _, password = login.partition(":")
    return ConnectionFields(
        conn_id,
        conn_type,
        host=unquote(hosts) or None,
        login=unquote(user) or None,
        password=unquote(password) or None,
        schema=unquote(schema) or None,
        extra_dejson=_extra_of(conn_id, query),
    )


def _extra_of(conn_id: str, query: str) -> Any:
    given = dict(parse_qsl(query, keep_blank_values=True))
    if _EXTRA not in given:
        return {name: _json_or_text(value) for name, value in given.items()}
    try:
        return json.loads(given[_EXTRA])
    except ValueError:
        raise ConfigError(f"connection {conn_id!r}: {_EXTRA} must be JSON") from None


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value
