"""The dashboard inside a real Airflow: who gets in, what they may do, and that it stands in the navigation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from chasqui_engine import SyncQueue
from chasqui_engine.dashboard import FixedConnections, TokenGuard, create_app
from tests.provider.e2e.real_airflow import ORDERS, WAITS, RealAirflow

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.filterwarnings("default")]

CHROMIUM = shutil.which("chromium")
HERE = {"connection": "chasqui_default", "queue": ORDERS}


def routes() -> Iterator[tuple[str, str]]:
    """Every route that the dashboard has, as method and path."""
    for route in create_app(FixedConnections({}), TokenGuard("nobody-knows-this")).routes:
        path = (
            getattr(route, "path", "").replace("{rest:path}", f"chasqui_default/{ORDERS}").replace("{name}", "main.js")
        )
        for method in sorted(set(getattr(route, "methods", ())) - {"HEAD"}):
            yield method, f"/chasqui{path}"


def test_anonymous_gets_in_nowhere(airflow: RealAirflow) -> None:
    asked = list(routes())
    assert len(asked) > 10
    with httpx.Client(base_url=airflow.url, timeout=30, trust_env=False) as anonymous:
        codes = {(method, path): anonymous.request(method, path, params=HERE).status_code for method, path in asked}
        forged = anonymous.get("/chasqui/", headers={"Authorization": "Bearer e30.e30.e30"})
    assert set(codes.values()) == {401}, codes
    assert forged.status_code in (401, 403)


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_who_may_not_read_connections_may_not_look(airflow: RealAirflow, role: str) -> None:
    client = airflow.client_of(role)
    codes = {(method, path): client.request(method, path, params=HERE).status_code for method, path in routes()}
    assert set(codes.values()) == {403}, codes


def test_who_may_edit_connections_may_act(airflow: RealAirflow, orders: SyncQueue) -> None:
    client = airflow.client_of("op")
    assert "<html" in client.get("/chasqui/").raise_for_status().text
    me = client.get("/chasqui/api/me").raise_for_status().json()
    assert (me["user"], me["may_change"]) == ("op", True)
    # A queue is there when its trigger has begun to read from it.
    airflow.until(lambda: ORDERS in client.get("/chasqui/api/queues").raise_for_status().text, "the queue in the list")

    refused = client.post("/chasqui/api/queue/pause", params=HERE)
    assert refused.status_code == 403, "without the page's token a change may be another site's"
    for change, paused in (("pause", True), ("resume", False)):
        headers = {"x-chasqui-csrf": me["csrf"]}
        client.post(f"/chasqui/api/queue/{change}", params=HERE, headers=headers).raise_for_status()
        assert orders.is_paused() is paused


def test_other_connections_stay_closed(airflow: RealAirflow) -> None:
    client = airflow.client_of("admin")
    for name in ("no_queues", "nobody_made_it"):
        assert client.get("/chasqui/api/queue", params={**HERE, "connection": name}).status_code == 404


def test_a_stored_connection_is_shown_and_found_by_name(airflow: RealAirflow, folder: Path) -> None:
    extra = json.dumps({"embedded": str(folder), "queue_name": WAITS})
    airflow.post("/api/v2/connections", {"connection_id": "Kept_In_Db", "conn_type": "chasqui", "extra": extra})

    def shown() -> list[str]:
        queues = airflow.client_of("op").get("/chasqui/api/queues").raise_for_status().json()
        return sorted(one["name"] for one in queues["connections"])

    # All who look share one look, every two seconds.
    airflow.until(lambda: shown() == ["Kept_In_Db", "chasqui_default"], "the connection in the list")
    told = airflow.run("inspect", ORDERS, "--conn-id", "Kept_In_Db", "--json", program="chasqui")
    assert [queue["name"] for queue in json.loads(told)] == [ORDERS]
    airflow.client.delete("/api/v2/connections/Kept_In_Db").raise_for_status()


def _links(airflow: RealAirflow, path: str) -> dict[str, str] | None:
    links: dict[str, str] = airflow.get(f"{path}/links")["extra_links"]
    return links if all(links.values()) else None


def test_tasks_link_to_their_queue(airflow: RealAirflow) -> None:
    run_id = airflow.trigger("to_be_killed")
    path = f"/api/v2/dags/to_be_killed/dagRuns/{run_id}/taskInstances/wait"
    airflow.until(lambda: airflow.get(path)["state"] == "deferred", "the wait")
    # Airflow stores them after the state.
    links = airflow.until(lambda: _links(airflow, path), "the link")
    assert links == {"Queue": f"/chasqui/queues/chasqui_default/{WAITS}"}
    assert "<html" in airflow.client_of("op").get(links["Queue"]).raise_for_status().text
    airflow.patch(path, {"new_state": "failed"})


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
def test_it_stands_in_the_navigation(airflow: RealAirflow) -> None:
    from playwright.sync_api import sync_playwright

    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=[*quiet, "--disable-sync", "--no-first-run"]
        )
        try:
            context = browser.new_context(viewport={"width": 1400, "height": 850})
            context.add_cookies([{"name": "_token", "value": airflow.token("op"), "url": airflow.url}])
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.goto(airflow.url)
            page.get_by_role("button", name="Browse").click()
            page.get_by_text("Chasqui", exact=True).click()
            page.wait_for_url("**/plugin/chasqui**")  # Airflow adds where in the dashboard one is
            page.frame_locator("iframe").get_by_text(ORDERS).first.wait_for()
            page.screenshot(path=str(airflow.home / "dashboard.png"))
        finally:
            browser.close()
