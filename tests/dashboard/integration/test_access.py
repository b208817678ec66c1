"""Every route asks the guard, and every answer has its headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.support.dashboards import TOKEN, AnyGuard, NobodyGuard, app_for

if TYPE_CHECKING:
    from tests.dashboard.integration.conftest import Opener

NOWHERE = "redis://127.0.0.1:1/0"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def client_of(app: Any, base: str = "http://dashboard") -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url=base)


def routes() -> list[tuple[str, str]]:
    """Every route of the application, filled in."""
    found = [route for route in app_for(NOWHERE).routes if isinstance(route, APIRoute)]
    paths = [(method, route.path) for route in found for method in sorted(route.methods)]
    return [(m, p.replace("{rest:path}", "main/q").replace("{name}", "main.js")) for m, p in paths]


def test_there_is_nothing_but_our_own_routes() -> None:
    assert all(isinstance(route, APIRoute) for route in app_for(NOWHERE).routes)
    assert len(routes()) > 20


@pytest.mark.parametrize(("method", "path"), routes())
async def test_no_route_is_open_to_who_may_not(method: str, path: str) -> None:
    app = app_for(NOWHERE, NobodyGuard())
    async with client_of(app) as client:
        response = await client.request(method, path, params={"connection": "main", "queue": "q", "id": "1-1"}, json={})
    assert response.status_code == 401
    assert "Who are you?" in response.text
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    await app.state.dashboard.close()


@pytest.mark.parametrize(
    "path", ["/", "/static/main.js", "/api/me", "/api/queue", "/nowhere", "/queues/a", "/static/no.js"]
)
async def test_every_answer_has_the_headers(path: str) -> None:
    async with client_of(app_for(NOWHERE, AnyGuard())) as client:
        response = await client.get(path)
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; ")
    assert "frame-ancestors 'self'" in policy
    assert "unsafe" not in policy
    assert {name: response.headers[name] for name in HEADERS} == HEADERS


async def test_an_error_nobody_expected_says_nothing_and_has_the_headers() -> None:
    class Broken:
        async def user(self, request: Any, *, change: bool, connection: str | None) -> str:
            raise RuntimeError("the inner workings")

    async with client_of(app_for(NOWHERE, Broken())) as client:
        response = await client.get("/api/me")
    assert response.status_code == 500
    assert "inner workings" not in response.text
    assert {name: response.headers[name] for name in HEADERS} == HEADERS


async def test_the_token_becomes_a_cookie_and_leaves_the_address() -> None:
    async with client_of(app_for(NOWHERE)) as client:
        assert (await client.get("/")).status_code == 401
        assert (await client.get("/", params={"token": TOKEN + "x"})).status_code == 401
        response = await client.get("/queues/main/q", params={"tab": "dead", "token": TOKEN})
        assert (response.status_code, response.headers["location"]) == (303, "/queues/main/q?tab=dead")
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/api/me")).json()["user"] == "local"


async def test_the_way_on_never_leads_to_another_host() -> None:
    async with client_of(app_for(NOWHERE)) as client:
        response = await client.get("//evil.example/x", params={"token": TOKEN})
    assert response.status_code in (303, 404, 401)
    assert not response.headers.get("location", "/").startswith("//")


async def test_a_program_may_send_the_token_as_a_header() -> None:
    async with client_of(app_for(NOWHERE)) as client:
        good = await client.get("/api/me", headers={"authorization": f"Bearer {TOKEN}"})
        wrong = (TOKEN.encode(), b"Bearer x", b"Bearer \xe9")
        bad = [await client.get("/api/me", headers={"authorization": value}) for value in wrong]
    assert good.status_code == 200
    assert [one.status_code for one in bad] == [401] * 3


async def test_it_works_wherever_it_is_mounted(redis_url: str, queue_name: str) -> None:
    app = app_for(redis_url, AnyGuard())
    outer = Starlette(routes=[Mount("/air/chasqui", app)])
    async with client_of(outer) as client:
        assert (await client.get("/air/chasqui")).headers["location"].endswith("/air/chasqui/")
        assert '<base href="./">' in (await client.get("/air/chasqui/")).text
        page = await client.get("/air/chasqui/queues/main/a%2Fb")
        assert '<base href="../../">' in page.text
        job = await client.get("/air/chasqui/queues/main/a%2Fb/jobs/x%2F%2Fy")
        assert '<base href="../../../../">' in job.text
        assert (await client.get("/air/chasqui/static/main.js")).status_code == 200
        view = await client.get("/air/chasqui/api/queue", params={"connection": "main", "queue": queue_name})
        assert view.json()["queue"] == queue_name
        missing = await client.get("/air/chasqui/api/queue", params={"connection": "x", "queue": "q"})
        assert missing.json()["error"]["code"] == "HTTP-404"
    await app.state.dashboard.close()


@pytest.mark.parametrize(
    "name",
    ["page.html", "../app.py", "..%2Fapp.py", "main.py", "x.js", "actions/../../app.py", "actions%2F..%2F..%2Fapp.py"],
)
async def test_only_styles_and_scripts_are_files(name: str) -> None:
    async with client_of(app_for(NOWHERE, AnyGuard())) as client:
        response = await client.get(f"/static/{name}")
    assert response.status_code == 404
    assert "import" not in response.text


async def test_payloads_are_masked_in_every_answer(open_api: Opener, raw: Any, queue: Any, queue_name: str) -> None:
    texts = await everything(open_api, raw, queue, queue_name, "mask")
    assert "s3cret" not in texts
    assert "53180081234" not in texts
    assert "‹text›" in texts or "\\u2039text\\u203a" in texts
    assert "card" in texts


async def test_payloads_are_hidden_in_every_answer(open_api: Opener, raw: Any, queue: Any, queue_name: str) -> None:
    texts = await everything(open_api, raw, queue, queue_name, "hide")
    assert "s3cret" not in texts
    assert "card" not in texts


async def everything(open_api: Opener, raw: Any, queue: Any, queue_name: str, payloads: str) -> str:
    """All that is told of a queue whose jobs have a secret in their payloads."""
    from tests.support.dashboards import dead_fields, dead_key

    secret = {"card": "s3cret", "number": 53180081234, "list": ["s3cret", {"deep": b"s3cret"}]}
    dlq_id = (await raw.xadd(dead_key(queue_name), dead_fields(secret, job_id="dead-1"))).decode()
    waiting = await queue.add("n", secret)
    await queue.add("n", secret, delay_ms=60_000)
    entry = (await raw.xrange(f"{{chasqui:{queue_name}}}:stream"))[0]
    progress = {"e": "progress", "id": waiting.id, "ts": "1", "progress": '{"card": "s3cret"}'}
    await raw.xadd(f"{{chasqui:{queue_name}}}:events", progress)
    assert entry
    async with open_api(payloads=payloads) as api:
        paths: list[tuple[str, dict[str, str]]] = [
            ("waiting", {}),
            ("delayed", {}),
            ("dead", {}),
            ("dead/one", {"id": dlq_id}),
            ("dead/export", {"ids": dlq_id}),
            ("dead/export", {"until": dlq_id}),
            ("job", {"id": waiting.id}),
            ("job", {"id": "dead-1"}),
        ]
        answers = [await api.client.get(f"/api/queue/{path}", params={**api.place, **more}) for path, more in paths]
        assert [one.status_code for one in answers] == [200] * len(paths)
        assert all(one.text.strip() for one in answers)
        return "\n".join(one.text for one in answers)


@pytest.mark.parametrize("path", ["/api/me/", "/api/queues/", "/static/main.js/", "//", "/queues"])
async def test_no_answer_repeats_the_host_of_a_request(path: str) -> None:
    async with client_of(app_for(NOWHERE, AnyGuard()), "http://evil.example") as client:
        answer = await client.get(path, follow_redirects=False)
    assert "evil.example" not in answer.headers.get("location", "")
    assert "evil.example" not in answer.text
