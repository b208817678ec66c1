"""The plugin: timetable and listener for the scheduler, listener for the triggerer, dashboard for the api-server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from chasqui_provider.operators.links import airflow_path
from chasqui_provider.plugins import listener
from chasqui_provider.timetables.repeatable import RepeatableTimetable
from chasqui_provider.version_compat import has_asset_state

_log = logging.getLogger(__name__)

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='%23b5651d' "
    "stroke-width='2' stroke-linecap='round'%3E%3Cpath d='M3 6h12M3 12h16M3 18h9'/%3E%3Cpath d='M17 3l4 3-4 3'/%3E"
    "%3C/svg%3E"
)


class _LazyList:
    """A list built on first use, so that its imports cost nothing until then."""

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        self._make = make

    def __get__(self, instance: object, owner: type) -> list[Any]:
        return self._make()


@cache
def _apps() -> list[Any]:
    try:
        from chasqui_provider.plugins.dashboard import PREFIX, dashboard_app
    except ImportError as err:
        _log.warning("Chasqui's dashboard is not available: %s (pip install 'chasqui[dashboard]')", err)
        return []
    return [{"app": dashboard_app(), "url_prefix": PREFIX, "name": "Chasqui"}]


@cache
def _views() -> list[Any]:
    if not _apps():
        return []
    (mounted,) = _apps()
    href = f"{airflow_path()}{mounted['url_prefix']}/"
    # With a route it opens inside Airflow's page; without one it would be an external link.
    view = {"name": "Chasqui", "href": href, "url_route": "chasqui", "destination": "nav", "category": "browse"}
    return [{**view, "icon": _ICON}]


def _listeners() -> list[Any]:
    return [listener] if has_asset_state() else []


class ChasquiPlugin(AirflowPlugin):
    """Loaded through the `airflow.plugins` entry point: Airflow ignores a provider's `plugins` key."""

    name = "chasqui"
    timetables = [RepeatableTimetable]  # noqa: RUF012 - the base class declares it so
    fastapi_apps = _LazyList(_apps)
    external_views = _LazyList(_views)
    listeners = _LazyList(_listeners)
