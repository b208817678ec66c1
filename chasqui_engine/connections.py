"""Connections by name: an installed package makes a URL of each, through an entry point."""

from __future__ import annotations

from importlib.metadata import entry_points

from chasqui_engine.values.errors import ConfigError

CONNECTIONS_GROUP = "chasqui.connections"
"""Entry points that make a URL of a connection's name: `def url(conn_id: str) -> str`."""


def connection_url(conn_id: str) -> str:
    """The URL of a connection; `ConfigError` says why there is none."""
    for point in entry_points(group=CONNECTIONS_GROUP):
        url: str = point.load()(conn_id)
        return url
    raise ConfigError(
        f"connection {conn_id!r}: no installed package looks up connections (entry points {CONNECTIONS_GROUP})"
    )
