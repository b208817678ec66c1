"""Who may do what: users of some servers only, and the Redis users of `deploy/acl`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from chasqui_engine import Queue, RepeatPattern
from chasqui_engine.dashboard import DashboardSettings, FixedConnections, create_app
from tests.dashboard.integration.conftest import Api
from tests.support.acl import QUEUE, admin, guarded, refusals, url_for
from tests.support.dashboards import AnyGuard, SomeGuard, app_for, dead_fields, dead_key, eventually

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from tests.servers import ServerProcess

__all__ = ["admin", "guarded"]  # fixtures

READS = ("queue", "queue/waiting", "queue/active", "queue/delayed", "queue/repeatables", "queue/dead")


@pytest.fixture
async def filled(guarded: ServerProcess, admin: Redis) -> str:
    """A queue with something of everything; the id of its dead letter."""
    async with Queue(QUEUE, redis_url=guarded.url) as queue:
        await queue.add("n", 1)
        await queue.add("n", 1, delay_ms=60_000)
        await queue.add("n", 1, repeat=RepeatPattern.every(60_000))
    await admin.xgroup_create(f"{{chasqui:{QUEUE}}}:stream", "default", "0")
    dlq_id: bytes = await admin.xadd(dead_key(QUEUE), dead_fields(1))
    return dlq_id.decode()


async def test_who_may_look_at_one_server_sees_nothing_of_the_others(valkey_url: str) -> None:
    connections = FixedConnections({"mine": valkey_url, "theirs": valkey_url})
    app = create_app(connections, SomeGuard("mine"), DashboardSettings(live_interval_s=0.2))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://dashboard") as client:
        assert (await client.get("/")).status_code == 200
        # A connection in the query is of no meaning to the list; it must not open it either.
        for query in ({}, {"connection": "mine"}, [("connection", "theirs"), ("connection", "mine")]):
            listed = (await client.get("/api/queues", params=query)).raise_for_status().json()  # type: ignore[arg-type]
            assert [one["name"] for one in listed["connections"]] == ["mine"]
        for path in (*READS, "queues", "queues/search", "me"):
            answer = await client.get(f"/api/{path}", params={"connection": "theirs", "queue": QUEUE, "text": "a"})
            assert answer.status_code == 403, path
        assert (await client.get("/api/queues/search", params={"text": "a"})).status_code == 400
    await app.state.dashboard.close()


async def test_a_monitor_sees_everything_and_changes_nothing(
    guarded: ServerProcess,
    admin: Redis,
    filled: str,
) -> None:
    app = app_for(url_for(guarded, "monitor"), AnyGuard())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
        api = Api(client, QUEUE)
        for path in READS:
            assert await api.get(path)
        assert (await api.get("queue/dead/one", id=filled))["id"] == "job-1"
        assert (await api.get("queue/job", id="job-1"))["job"]["state"] == "dead"
        listed = await eventually(lambda: api.get("queues"), lambda told: told["connections"][0]["queues"])
        assert listed["connections"][0]["queues"][0]["dead"] == 1
        assert await refusals(admin) == []
        answer = await api.post("queue/dead/delete", {"ids": [filled]}, expect=503)
        assert answer["error"]["code"] == "CMQ-314"
        await api.post("queue/pause", expect=503)
    assert await admin.xlen(dead_key(QUEUE)) == 1
    await app.state.dashboard.close()


async def test_an_operator_acts(guarded: ServerProcess, admin: Redis, filled: str) -> None:
    app = app_for(url_for(guarded, "operator"), AnyGuard())
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
        api = Api(client, QUEUE)
        for path in READS:
            assert await api.get(path)
        assert (await api.post("queue/pause"))["changed"]
        assert (await api.post("queue/resume"))["changed"]
        assert (await api.post("queue/dead/replay", {"ids": [filled]}))["done"] == 1
        other = (await admin.xadd(dead_key(QUEUE), dead_fields(2))).decode()
        assert (await api.post("queue/dead/delete", {"ids": [other]}))["done"] == 1
        assert await refusals(admin) == []
    await app.state.dashboard.close()
