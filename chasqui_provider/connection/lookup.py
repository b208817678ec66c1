"""Airflow's connections for code that does not know Airflow: the `chasqui.connections` entry point."""

from __future__ import annotations

import contextlib
import sys

from chasqui_engine import ConfigError
from chasqui_provider.connection.environment import find_in_environment, variable_of
from chasqui_provider.connection.settings import settings_of


def connection_url(conn_id: str) -> str:
    """The URL of a connection, from the environment or from Airflow."""
    found = find_in_environment(conn_id)
    if found is not None:
        return settings_of(found).url
    # Some versions of Airflow print while they import; that has no place in the output of a command.
    with contextlib.redirect_stdout(sys.stderr):
        return _ask_airflow(conn_id)


def _ask_airflow(conn_id: str) -> str:
    try:
        from airflow.models.connection import Connection

        from chasqui_provider.version_compat import AirflowNotFoundException
    except ImportError as err:
        raise ConfigError(
            f"connection {conn_id!r} is not in the environment, and Airflow is not installed: "
            f"pip install 'chasqui[airflow]', "
            f"or set {variable_of(conn_id)}"
        ) from err
    try:
        found = Connection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException as err:
        raise ConfigError(f"Airflow has no connection {conn_id!r}") from err
    except Exception as err:
        raise ConfigError(f"connection {conn_id!r} cannot be read: {type(err).__name__}: {err}") from err
    return settings_of(found).url
