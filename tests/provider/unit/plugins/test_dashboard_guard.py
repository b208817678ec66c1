"""Airflow's permissions on single connections, asked of a stand-in for its auth manager."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

# Importing the api-server's parts warns.
pytestmark = pytest.mark.filterwarnings("default")


class Manager:
    """Who may read and edit which connections; None stands for all of them."""

    def __init__(self, **allowed: set[str | None]) -> None:
        self._allowed = allowed

    def is_authorized_connection(self, *, method: str, user: Any, details: Any = None) -> bool:
        assert user.get_name() == "ada"
        mine = self._allowed.get(method, set())
        return None in mine or (details is not None and details.conn_id in mine)


@pytest.fixture
def client(connect: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The dashboard of an Airflow with two connections, and a user for whom a manager speaks."""
    from chasqui_provider.plugins import dashboard

    async def nobody_else(*_: Any) -> Any:
        return SimpleNamespace(get_name=lambda: "ada")

    for conn_id in ("mine", "theirs"):
        connect(conn_id, url="redis://127.0.0.1:1/0")
    monkeypatch.setattr(dashboard, "get_user", nobody_else)
    monkeypatch.setattr(dashboard, "bearer_scheme", nobody_else)
    monkeypatch.setattr(dashboard.AirflowConnections, "names", _names)

    def of(manager: Manager) -> httpx.AsyncClient:
        monkeypatch.setattr(dashboard, "get_auth_manager", lambda: manager)
        return httpx.AsyncClient(transport=httpx.ASGITransport(dashboard.dashboard_app()), base_url="http://airflow")

    return of


async def _names(_: Any) -> list[str]:
    return ["mine", "theirs"]


async def listed(client: httpx.AsyncClient, **query: str) -> list[str]:
    answer = (await client.get("/api/queues", params=query)).raise_for_status()
    return [one["name"] for one in answer.json()["connections"]]


async def test_who_may_read_one_connection_sees_that_one(client: Any) -> None:
    async with client(Manager(GET={"mine"})) as ada:
        assert (await ada.get("/")).status_code == 200
        assert await listed(ada) == ["mine"]
        assert await listed(ada, connection="mine") == ["mine"]
        refused = await ada.get("/api/queue", params={"connection": "theirs", "queue": "q"})
        assert refused.status_code == 403
        assert "the connection theirs" in refused.json()["error"]["message"]
        assert not (await ada.get("/api/me", params={"connection": "mine"})).json()["may_change"]


async def test_who_may_edit_one_connection_acts_there_only(client: Any) -> None:
    async with client(Manager(GET={None}, PUT={"mine"})) as ada:
        assert await listed(ada) == ["mine", "theirs"]
        for conn_id, may in (("mine", True), ("theirs", False)):
            me = (await ada.get("/api/me", params={"connection": conn_id})).json()
            assert me["may_change"] is may
        place = {"connection": "theirs", "queue": "q"}
        answer = await ada.post("/api/queue/pause", params=place, headers={"x-chasqui-csrf": me["csrf"]})
        assert answer.status_code == 403


async def test_who_may_read_none_gets_in_nowhere(client: Any) -> None:
    async with client(Manager()) as ada:
        for path in ("/", "/static/main.js", "/api/me", "/api/queues", "/api/queues?connection=mine"):
            assert (await ada.get(path)).status_code == 403, path


async def test_a_redis_connection_is_shown_if_it_is_asked_for(connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from chasqui_provider.plugins.dashboard import AirflowConnections

    connect("cache", conn_type="redis", host="h")
    with pytest.raises(KeyError):
        await AirflowConnections().url("cache")
    monkeypatch.setenv("AIRFLOW__CHASQUI__DASHBOARD_CONNECTIONS", "other, cache")
    assert await AirflowConnections().url("cache") == "redis://h:6379"
