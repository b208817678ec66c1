"""One who asks for much, or says nothing, shuts the page for nobody else."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING

import httpx

from chasqui_engine.dashboard import silent_connections
from tests.support.dashboards import AnyGuard, app_for
from tests.support.processes import Process

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import Request


class NamedGuard(AnyGuard):
    """Whoever says a name has it."""

    async def user(self, request: Request, *, change: bool, connection: str | None) -> str:
        return request.headers.get("x-name", "nobody")


async def test_one_who_asks_for_random_queues_shuts_the_page_for_nobody(valkey_url: str) -> None:
    app = app_for(valkey_url, NamedGuard())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://dashboard") as client:

        async def look(name: str, queue: str) -> int | str:
            at = {"connection": "main", "queue": queue}
            answer = await client.get("/api/queue", params=at, headers={"x-name": name})
            return answer.status_code if answer.status_code == 200 else answer.text

        assert {await look("mallory", f"random-{n}") for n in range(260)} == {200}
        assert {await look(f"viewer-{n}", f"queue-{n}") for n in range(60)} == {200}
    await app.state.dashboard.close()


def test_silent_connections_shut_the_page_for_nobody(valkey_url: str, tmp_path: Path) -> None:
    with (
        Process(valkey_url, tmp_path, "dashboard", "--port", "0", "--json") as dashboard,
        contextlib.ExitStack() as held,
    ):
        told = dashboard.next_json()
        port = httpx.URL(told["url"]).port
        for n in range(400):
            silent = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            silent.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n" if n % 2 else b"")
        assert httpx.get(told["link"], follow_redirects=False, timeout=10).status_code == 303
        assert len(os.listdir(f"/proc/{dashboard.pid}/fd")) < silent_connections._MOST_SILENT + 50


def test_a_request_that_is_never_finished_ends(valkey_url: str, tmp_path: Path) -> None:
    with Process(valkey_url, tmp_path, "dashboard", "--port", "0", "--json") as dashboard:
        port = httpx.URL(dashboard.next_json()["url"]).port
        with socket.create_connection(("127.0.0.1", port), timeout=silent_connections._HEADERS_S + 15) as silent:
            silent.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
            began = time.monotonic()
            with contextlib.suppress(ConnectionResetError):
                assert silent.recv(100) == b""
            assert time.monotonic() - began > silent_connections._HEADERS_S - 1
