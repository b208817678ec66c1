"""The hook: turns an Airflow connection into queues."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from chasqui_engine import ChasquiError, Queue, RedisError, SyncQueue, name_program
from chasqui_provider.connection.form import behaviour_for_hook, widgets_for_hook
from chasqui_provider.connection.settings import CONN_TYPE, DEFAULT_CONN_ID, Settings, settings_of
from chasqui_provider.hooks.reporting import ReportingQueue
from chasqui_provider.version_compat import AIRFLOW_VERSION, is_hook_lineage_read

# Only Airflow imports this module.
name_program("airflow", str(AIRFLOW_VERSION))

_PROBE_TIMEOUT_S = 10.0
_PROBE_QUEUE = "default"


class ChasquiHook(BaseHook):
    """Makes queues from a connection of type `chasqui`.

    Host, port, login, password and schema (the database's number) say where the server is, or an extra does:
    `url`, `sentinel` (the service's name), `cluster`, `embedded` (a folder). See
    `chasqui_provider.connection.settings`.

    :param report_lineage: report the queues that are written to and read from to Airflow's collector of hook lineage,
        where a plugin such as OpenLineage's reads it.
    """

    conn_name_attr = "chasqui_conn_id"
    default_conn_name = DEFAULT_CONN_ID
    conn_type = CONN_TYPE
    hook_name = "Chasqui"

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """The form of a connection, for Airflow 3.1."""
        return behaviour_for_hook()

    @classmethod
    def get_connection_form_widgets(cls) -> dict[str, Any]:
        """The form's own fields, for Airflow 3.1."""
        return widgets_for_hook()

    def __init__(self, chasqui_conn_id: str = DEFAULT_CONN_ID, *, report_lineage: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.chasqui_conn_id = chasqui_conn_id
        self.report_lineage = report_lineage

    def get_conn(self) -> SyncQueue:
        """The connection's default queue."""
        return self.get_queue()

    def get_queue(self, queue_name: str | None = None) -> SyncQueue:
        """A queue to use from blocking code; close it, or use it in a `with`."""
        settings = self.settings()
        name, options = settings.name_of(queue_name), _options(settings)
        # Airflow's collector takes seconds to create, so it is created only if a plugin reads it.
        if self.report_lineage and is_hook_lineage_read():
            return ReportingQueue(name, hook=self, **options)
        return SyncQueue(name, **options)

    @contextmanager
    def open_queue(self, queue_name: str | None = None) -> Iterator[SyncQueue]:
        """`get_queue` in a `with`; an error of the server names the connection."""
        with self.get_queue(queue_name) as queue:
            try:
                yield queue
            except RedisError as err:
                raise self.settings().name_in(err) from err

    async def get_async_queue(self, queue_name: str | None = None) -> Queue:
        """A queue to use in an event loop; close it, or use it in an `async with`."""
        settings = await self.get_settings()
        return Queue(settings.name_of(queue_name), **_options(settings))

    def settings(self) -> Settings:
        """The settings of the connection."""
        return _mask(settings_of(self.get_connection(self.chasqui_conn_id)))

    async def get_settings(self) -> Settings:
        """The settings of the connection, read without blocking the event loop."""
        return _mask(settings_of(await self.aget_connection(self.chasqui_conn_id)))

    def test_connection(self) -> tuple[bool, str]:
        """Whether the server answers, and which server it is; never raises."""
        try:
            settings = self.settings()
            try:
                return True, asyncio.run(_probe(settings))
            except RedisError as err:
                return False, str(settings.name_in(err))
        except (ChasquiError, TimeoutError) as err:
            return False, str(err) or f"connection {self.chasqui_conn_id!r}: no answer in time"
        except Exception as err:  # noqa: BLE001 - the form shows every error
            return False, f"{type(err).__name__}: {err}"


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "redis_url": settings.url,
        "connection_patience": settings.connection_patience,
        **settings.queue_options,
    }


def _mask(settings: Settings) -> Settings:
    """Airflow masks a connection's password in logs, but not one in a URL."""
    for secret in settings.secrets:
        mask_secret(secret)
    return settings


async def _probe(settings: Settings) -> str:
    async with asyncio.timeout(_PROBE_TIMEOUT_S):
        name = settings.queue_name or _PROBE_QUEUE
        async with Queue(name, redis_url=settings.url, **settings.queue_options) as queue:
            health, waiting = await queue.health(), (await queue.counts()).waiting
    if waiting and not health.workers:
        server = f"{health.server.capitalize()} {health.version}"
        gone = f"; {health.gone} died" if health.gone else ""
        return f"{server}; queue {name!r}: {waiting} jobs wait, and group {health.group!r} has no worker{gone}"
    return str(health)
