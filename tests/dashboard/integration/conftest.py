"""The dashboard without a port: requests go straight to the application."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from chasqui_engine import Queue
from tests.support.dashboards import app_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    Opener = Callable[..., AbstractAsyncContextManager["Api"]]


class Api:
    """The API as the page calls it."""

    def __init__(self, client: httpx.AsyncClient, queue: str) -> None:
        self.client = client
        self.place = {"connection": "main", "queue": queue}
        self._csrf = ""

    async def get(self, path: str, **params: Any) -> Any:
        response = await self.client.get(f"/api/{path}", params={**self.place, **params})
        assert response.status_code == 200, response.text
        return response.json()

    async def post(self, path: str, body: Any = None, *, expect: int = 200) -> Any:
        if not self._csrf:
            self._csrf = (await self.get("me"))["csrf"]
        headers = {"x-chasqui-csrf": self._csrf}
        response = await self.client.post(
            f"/api/{path}", params=self.place, headers=headers, json={} if body is None else body
        )
        assert response.status_code == expect, response.text
        return response.json()

    async def problem(self, path: str, **params: Any) -> tuple[int, str]:
        response = await self.client.get(f"/api/{path}", params={**self.place, **params})
        return response.status_code, response.json()["error"]["message"]


@pytest.fixture
def queue_name() -> str:
    """Among the first of its server: the list ends after 200 queues, and other tests leave theirs behind."""
    return f"0-{uuid.uuid4()}"


@pytest.fixture
def open_api(redis_url: str, queue_name: str) -> Opener:
    """Opens a dashboard: `async with open_api(guard, payloads="mask") as api`."""

    @contextlib.asynccontextmanager
    async def opened(guard: Any = None, **settings: Any) -> AsyncIterator[Api]:
        from tests.support.dashboards import AnyGuard

        app = app_for(redis_url, guard or AnyGuard(), **settings)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
                yield Api(client, queue_name)
        finally:
            await app.state.dashboard.close()

    return opened


@pytest.fixture
async def api(open_api: Opener) -> AsyncIterator[Api]:
    async with open_api() as one:
        yield one


@pytest.fixture
async def queue(redis_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=redis_url) as one:
        yield one
