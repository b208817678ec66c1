"""The URL of a read or write: the option `url`, the connection that `connId` names, or the environment's."""

from __future__ import annotations

from collections.abc import Mapping

from chasqui_engine import connections
from chasqui_engine._redis.client.urls import resolve_url
from chasqui_engine.values.errors import ConfigError


def connection_url(given: Mapping[str, str]) -> str:
    """The URL that the options of a read or write name."""
    options = {key.lower(): value for key, value in given.items()}
    conn_id = options.get("connid")
    if conn_id is None:
        return resolve_url(options.get("url"))
    if "url" in options:
        raise ConfigError("pass url or connId, not both")
    return connections.connection_url(conn_id)
