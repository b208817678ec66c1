"""A job is found by its id, whatever queue it is in, and only where the user may look."""

from __future__ import annotations

import socket
import uuid
from typing import TYPE_CHECKING, Any

import httpx

from chasqui_engine import Queue
from chasqui_engine.dashboard import DashboardSettings, FixedConnections, create_app
from tests.servers import VALKEY, ServerProcess
from tests.support.dashboards import AnyGuard, SomeGuard, dead_fields, dead_key

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from tests.dashboard.integration.conftest import Api


async def found_at(api: Api, job_id: str, **place: str) -> list[tuple[str, str]]:
    told = await api.get("jobs/find", id=job_id, **place)
    assert told["complete"]
    return [(one["queue"], one["state"]) for one in told["found"]]


async def test_a_job_is_found_in_any_state(api: Api, queue: Queue, raw: Redis, queue_name: str) -> None:
    waiting = await queue.add("welcome", 1)
    delayed = await queue.add("later", 2, delay_ms=600_000)
    await raw.xadd(dead_key(queue_name), dead_fields(3, job_id=f"dead-{queue_name}"))
    await raw.set(f"{{chasqui:{queue_name}}}:result:done-{queue_name}", b"\x01")
    assert await found_at(api, waiting.id) == [(queue_name, "waiting")]
    assert await found_at(api, delayed.id) == [(queue_name, "delayed")]
    assert await found_at(api, f"dead-{queue_name}") == [(queue_name, "dead")]
    assert await found_at(api, "no such job") == []
    told = await api.get("jobs/find", id=waiting.id)
    assert told["found"] == [{"connection": "main", "queue": queue_name, "name": "welcome", "state": "waiting"}]


async def test_an_id_in_several_queues_begins_with_that_of_the_page(
    api: Api, queue: Queue, redis_url: str, queue_name: str
) -> None:
    own = f"welcome:{uuid.uuid4()}"
    other_name = f"{queue_name}-other"
    async with Queue(other_name, redis_url=redis_url) as other:
        await queue.add("n", 1, job_id=own)
        await other.add("n", 1, delay_ms=600_000, job_id=own)
        assert await found_at(api, own, queue=other_name) == [(other_name, "delayed"), (queue_name, "waiting")]
        assert await found_at(api, own, queue=queue_name) == [(queue_name, "waiting"), (other_name, "delayed")]


async def test_a_bad_queue_hides_no_job(api: Api, queue: Queue, raw: Redis, queue_name: str) -> None:
    job = await queue.add("n", 1)
    await raw.xadd(f"{{chasqui:{queue_name}-bad}}:stream", {"d": b"x"})
    await raw.set(f"{{chasqui:{queue_name}-bad}}:dlq", "no stream")
    try:
        assert await found_at(api, job.id) == [(queue_name, "waiting")]
    finally:
        await raw.delete(f"{{chasqui:{queue_name}-bad}}:dlq", f"{{chasqui:{queue_name}-bad}}:stream")


async def ask(app: Any, **params: str) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
        answer = await client.get("/api/jobs/find", params=params)
    await app.state.dashboard.close()
    return answer


async def test_what_the_user_may_not_view_is_not_searched(valkey_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=valkey_url) as queue:
        job = await queue.add("n", 1)
    with ServerProcess(VALKEY) as mine:
        connections = FixedConnections({"mine": mine.url, "theirs": valkey_url})
        app = create_app(connections, SomeGuard("mine"), DashboardSettings())
        assert (await ask(app, id=job.id)).json() == {"found": [], "complete": True}
        assert (await ask(app, id=job.id, connection="theirs")).status_code == 403
        app = create_app(connections, AnyGuard(), DashboardSettings())
        [found] = (await ask(app, id=job.id)).json()["found"]
        assert found["connection"] == "theirs"


async def test_servers_that_are_away_or_counted_twice(valkey_url: str, queue_name: str) -> None:
    async with Queue(queue_name, redis_url=valkey_url) as queue:
        job = await queue.add("n", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        away = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        connections = FixedConnections({"away": away, "main": valkey_url, "again": valkey_url})
        app = create_app(connections, AnyGuard(), DashboardSettings())
        told = (await ask(app, id=job.id, connection="again")).json()
    assert [(one["connection"], one["queue"]) for one in told["found"]] == [("again", queue_name)]
    assert told["complete"] is False


async def test_what_no_job_can_be_called(api: Api) -> None:
    assert await api.problem("jobs/find", id=" ") == (400, "job_id must be a non-empty, non-whitespace string")
