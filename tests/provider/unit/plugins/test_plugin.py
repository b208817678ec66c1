"""What Airflow loads: the timetable always, the dashboard where it can be had."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from chasqui_engine import ConfigError
from chasqui_provider.connection.lookup import connection_url
from chasqui_provider.operators.links import queue_page
from chasqui_provider.plugins import chasqui
from chasqui_provider.plugins.chasqui import ChasquiPlugin

# Importing the api-server's parts warns.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    for made in (chasqui._apps, chasqui._views):
        made.cache_clear()
    yield
    for made in (chasqui._apps, chasqui._views):
        made.cache_clear()


def test_the_dashboard_is_mounted_and_in_the_navigation() -> None:
    (mounted,) = ChasquiPlugin.fastapi_apps
    assert mounted["url_prefix"] == "/chasqui"
    (view,) = ChasquiPlugin.external_views
    assert (view["href"], view["url_route"], view["destination"]) == ("/chasqui/", "chasqui", "nav")
    assert ChasquiPlugin.fastapi_apps[0]["app"] is mounted["app"], "made once"


def test_below_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://example.org/airflow/")
    assert ChasquiPlugin.external_views[0]["href"] == "/airflow/chasqui/"
    assert queue_page("q", "c") == "/airflow/chasqui/queues/c/q"
    monkeypatch.setenv("AIRFLOW__CHASQUI__DASHBOARD_URL", "https://queues.example.org/")
    assert queue_page("q", "c") == "https://queues.example.org/queues/c/q"
    assert ChasquiPlugin.external_views[0]["href"] == "/airflow/chasqui/", "the one that is mounted"


def test_without_the_extra_airflow_goes_on_without_the_page(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "chasqui_provider.plugins.dashboard", raising=False)
    monkeypatch.setitem(sys.modules, "chasqui_engine.dashboard", None)
    with caplog.at_level(logging.WARNING):
        assert (ChasquiPlugin.fastapi_apps, ChasquiPlugin.external_views) == ([], [])
    assert "chasqui[dashboard]" in caplog.text
    assert ChasquiPlugin.timetables


async def test_only_connections_of_our_type_lead_anywhere(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from chasqui_provider.plugins.dashboard import AirflowConnections, _names_in_environment

    connect("queues", url="redis://h:1/2")
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", "postgres://u:p@h/db")
    monkeypatch.setenv("AIRFLOW_CONN_BROKEN", '{"conn_type": ')
    assert "queues" in set(_names_in_environment())
    assert "other" not in set(_names_in_environment())
    assert await AirflowConnections().url("queues") == "redis://h:1/2"
    with pytest.raises(KeyError):
        await AirflowConnections().url("other")


def test_connections_by_name(connect: Any) -> None:
    connect("watched", host="s1,s2", extra={"sentinel": "main"})
    assert connection_url("watched") == "redis+sentinel://s1:26379,s2:26379/main"
    connect("odd", extra={"speling": 1})
    with pytest.raises(ConfigError, match="speling"):
        connection_url("odd")


def test_what_airflow_says_on_the_way_stays_out_of_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from airflow.models.connection import Connection

    def chatty(conn_id: str) -> Any:
        print("setup plugin alembic")
        return Connection(conn_id=conn_id, conn_type="chasqui", host="h")

    monkeypatch.setattr(Connection, "get_connection_from_secrets", chatty)
    assert connection_url("queues") == "redis://h:6379"
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "setup plugin alembic\n")


def test_connections_by_name_without_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "airflow.models.connection", None)
    with pytest.raises(ConfigError, match=r"chasqui\[airflow\].*AIRFLOW_CONN_ANY"):
        connection_url("any")
    monkeypatch.setenv("AIRFLOW_CONN_ANY", "chasqui://h")
    assert connection_url("any") == "redis://h:6379"
