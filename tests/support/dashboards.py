"""A dashboard on a real port, guards for tests, and dead letters by the thousand."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from fastapi import FastAPI, HTTPException, Request

from chasqui_engine.codec.envelope import encode_job
from chasqui_engine.dashboard import DashboardSettings, FixedConnections, TokenGuard, create_app
from chasqui_engine.values.job import Job
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    import redis

TOKEN = "a-token-for-the-tests-only"
PATIENCE_S = 30.0

# Runs on the server: a hundred thousand take a second this way, and a minute from here.
_MANY_DEAD = """
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local envelope = cmsgpack.pack({ 'job-' .. i, 'payload ' .. i, 1700000000000, 0 })
  redis.call('XADD', KEYS[1], '*', 'd', envelope, 'n', 'name-' .. (i % 10), 'source_id', '1-' .. i,
             'reason', i % 5 == 0 and 'unrecoverable' or 'retries_exhausted', 'detail', 'ValueError: number ' .. i)
end
"""


async def eventually(look: Any, wanted: Any) -> Any:
    """What `look` gives, as soon as `wanted` likes it."""
    async with asyncio.timeout(PATIENCE_S):
        while not wanted(found := await look()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    return found


class AnyGuard:
    """Lets everybody look; and change, if so told."""

    def __init__(self, *, may_change: bool = True) -> None:
        self._may_change = may_change

    async def user(self, request: Request, *, change: bool, connection: str | None) -> str:
        if change and not self._may_change:
            raise HTTPException(403, "You may look, but not change anything.")
        return "ada"


class SomeGuard:
    """Lets everybody look at one server, and at no other."""

    def __init__(self, connection: str) -> None:
        self._connection = connection

    async def user(self, request: Request, *, change: bool, connection: str | None) -> str:
        if connection not in (None, self._connection):
            raise HTTPException(403, "That server is not yours.")
        return "ada"


class NobodyGuard:
    """Lets nobody in."""

    async def user(self, request: Request, *, change: bool, connection: str | None) -> str:
        raise HTTPException(401, "Who are you?")


def app_for(
    url: str, guard: Any = None, *, name: str = "main", further: tuple[str, ...] = (), **settings: Any
) -> FastAPI:
    settings.setdefault("live_interval_s", 0.2)
    connections = FixedConnections(dict.fromkeys((name, *further), url))
    return create_app(connections, guard or TokenGuard(TOKEN), DashboardSettings(**settings))


class Served:
    """An application on a free port of this machine: `with Served(app) as served: … served.url …`."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=10)
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._server.serve([self._listener])

    def __enter__(self) -> Self:
        self._thread.start()
        wait_for(lambda: self._server.started or not self._thread.is_alive(), "the dashboard to start")
        assert self._server.started
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the dashboard does not end"

    def call_soon(self, function: Callable[[], None]) -> None:
        """Calls it on the loop that serves."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function)

    def _end(self) -> None:
        self._app.state.dashboard.feeds.stop()
        self._server.should_exit = True


def audited(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The lines of the audit log."""
    return [json.loads(record.message) for record in caplog.records if record.name == "chasqui.audit"]


def dead_key(queue: str) -> str:
    return f"{{chasqui:{queue}}}:dlq"


def dead_fields(
    payload: Any,
    *,
    job_id: str = "job-1",
    name: str = "welcome",
    reason: str = "retries_exhausted",
    error: str = "ValueError: no",
) -> dict[str | bytes, Any]:
    """A dead letter as a worker writes it."""
    envelope = encode_job(Job(id=job_id, payload=payload, created_at_ms=1_700_000_000_000, attempt=1))
    return {"d": envelope, "n": name, "source_id": "1-1", "reason": reason, "detail": error}


def add_many_dead(client: redis.Redis, queue: str, count: int) -> None:
    script = client.register_script(_MANY_DEAD)
    for start in range(1, count + 1, 10_000):
        script(keys=[dead_key(queue)], args=[start, min(start + 9_999, count)])
