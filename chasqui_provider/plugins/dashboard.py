"""The dashboard inside Airflow: its connections, its users, its permissions."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user
from airflow.models.connection import Connection
from airflow.secrets.environment_variables import CONN_ENV_PREFIX, EnvironmentVariablesBackend
from airflow.utils.session import create_session
from fastapi import FastAPI, HTTPException, Request
from sqlalchemy import select

from chasqui_engine.dashboard import DashboardSettings, create_app
from chasqui_provider.connection.redis_type import REDIS_CONN_TYPE
from chasqui_provider.connection.settings import CONN_TYPE, settings_of
from chasqui_provider.version_compat import AirflowNotFoundException, conf

PREFIX = "/chasqui"


class AirflowConnections:
    """Airflow's connections of type `chasqui`: from the database, the environment, and a setting."""

    async def names(self) -> Sequence[str]:
        """Their ids, sorted."""
        return await asyncio.to_thread(_names)

    async def url(self, name: str) -> str:
        """The URL of one; `KeyError` if it does not exist or has another type."""
        found = await asyncio.to_thread(_find, name)
        if found is None:
            raise KeyError(name)
        return settings_of(found).url


def _names() -> list[str]:
    with create_session() as session:
        stored = set(session.scalars(select(Connection.conn_id).where(Connection.conn_type == CONN_TYPE)))
    # Those of a secrets backend can be asked for, but not listed.
    return sorted(
        {*stored, *_names_in_environment(), *(name for name in _names_in_settings() if _find(name) is not None)}
    )


def _names_in_settings() -> set[str]:
    """The connections that a setting names."""
    return {name.strip() for name in conf.get("chasqui", "dashboard_connections", fallback="").split(",")} - {""}


def _names_in_environment() -> Iterator[str]:
    environment = EnvironmentVariablesBackend()
    for variable in os.environ:
        if not variable.startswith(CONN_ENV_PREFIX):
            continue
        name = variable.removeprefix(CONN_ENV_PREFIX).lower()
        # An unreadable one does not hide the others.
        with contextlib.suppress(Exception):
            if _is_ours(environment.get_connection(name)):
                yield name


def _is_ours(connection: Any) -> bool:
    return connection is not None and connection.conn_type == CONN_TYPE


def _find(conn_id: str) -> Any:
    with contextlib.suppress(AirflowNotFoundException):
        found = Connection.get_connection_from_secrets(conn_id)
        # Connections of type redis only if they are named: most of them hold other things.
        is_wanted = _is_ours(found) or (found.conn_type == REDIS_CONN_TYPE and conn_id in _names_in_settings())
        return found if is_wanted else None
    return None


class AirflowGuard:
    """Users who may read a connection may read its queues; users who may edit it may change them."""

    def __init__(self, connections: AirflowConnections) -> None:
        self._connections = connections

    async def user(self, request: Request, *, change: bool, connection: str | None) -> str:
        """The name of the user of this session or token; 401 without one, 403 without the permission."""
        user = await get_user(request, None, await bearer_scheme(request))
        if not await self._may(user, "PUT" if change else "GET", connection):
            need = "edit" if change else "read"
            what = "Airflow's connections" if connection is None else f"the connection {connection}"
            raise HTTPException(403, f"This needs the permission to {need} {what}.")
        return user.get_name()

    async def _may(self, user: Any, method: Any, connection: str | None) -> bool:
        if connection is not None:
            return await asyncio.to_thread(_may_one, user, method, connection)
        if await asyncio.to_thread(_may_all, user, method):
            return True
        # Some users may read or edit only certain connections.
        for name in await self._connections.names():
            if await asyncio.to_thread(_may_one, user, method, name):
                return True
        return False


def _may_all(user: Any, method: Any) -> bool:
    return get_auth_manager().is_authorized_connection(method=method, user=user)


def _may_one(user: Any, method: Any, conn_id: str) -> bool:
    return get_auth_manager().is_authorized_connection(method=method, user=user, details=_details(conn_id))


def _details(conn_id: str) -> ConnectionDetails:
    if not conf.getboolean("core", "multi_team", fallback=False):
        return ConnectionDetails(conn_id=conn_id)
    return ConnectionDetails(conn_id=conn_id, team_name=Connection.get_team_name(conn_id))


def dashboard_app() -> FastAPI:
    """The dashboard, for mounting at `PREFIX`."""
    connections = AirflowConnections()
    payloads: Any = conf.get("chasqui", "dashboard_payloads", fallback="show")
    return create_app(connections, AirflowGuard(connections), DashboardSettings(payloads=payloads))
