"""Live updates: over a real connection, shared between browsers, and bounded."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from chasqui_engine import Queue
from chasqui_engine.dashboard.live.feeds import Feeds
from tests.support.dashboards import PATIENCE_S, AnyGuard, Served, app_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@pytest.fixture
def served(valkey_url: str) -> Iterator[Served]:
    with Served(app_for(valkey_url, AnyGuard(), most_watchers=2)) as one:
        yield one


async def views(client: httpx.AsyncClient, path: str, params: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    async with client.stream("GET", path, params=params, timeout=PATIENCE_S) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


async def test_a_change_shows_without_asking_again(served: Served, valkey_url: str, queue_name: str) -> None:
    place = {"connection": "main", "queue": queue_name, "minutes": 5}
    async with httpx.AsyncClient(base_url=served.url) as client, Queue(queue_name, redis_url=valkey_url) as queue:
        async with asyncio.timeout(PATIENCE_S):
            added = False
            async for view in views(client, "api/queue/live", place):
                if not added:
                    assert view["waiting"] == 0
                    await queue.add("n", 1)
                    added = True
                elif view["waiting"] == 1:
                    assert len(view["series"]["completed"]) == 60
                    break
            async for told in views(client, "api/queues/live", {}):
                if any(row["queue"] == queue_name for row in told["connections"][0]["queues"]):
                    break


async def test_there_are_so_many_watchers_and_no_more(served: Served, queue_name: str) -> None:
    place = {"connection": "main", "queue": queue_name}
    async with httpx.AsyncClient(base_url=served.url) as client:
        first, second = (views(client, "api/queue/live", place) for _ in range(2))
        assert (await anext(first))["queue"] == (await anext(second))["queue"] == queue_name
        refused = await client.get("api/queue/live", params=place)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "HTTP-503")
        # The same without a stream stays open to all.
        assert (await client.get("api/queue", params=place)).status_code == 200
        await first.aclose()
        await second.aclose()


async def test_whoever_leaves_makes_room(served: Served, queue_name: str) -> None:
    place = {"connection": "main", "queue": queue_name}
    async with asyncio.timeout(PATIENCE_S), httpx.AsyncClient(base_url=served.url) as client:
        for _ in range(6):
            watching = views(client, "api/queue/live", place)
            while True:
                try:
                    await anext(watching)
                    break
                except AssertionError:  # the one before is still on its way out
                    await asyncio.sleep(0.05)
                    watching = views(client, "api/queue/live", place)
            await watching.aclose()


async def test_a_look_is_shared_and_ends_when_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    from chasqui_engine.dashboard.live import feeds

    monkeypatch.setattr(feeds, "_LINGER_S", 0.05)
    looks = 0

    def make() -> feeds.Poll:
        async def look() -> int:
            nonlocal looks
            looks += 1
            return looks

        return look

    watches = Feeds(0.01, 10)

    async def follow() -> list[int]:
        seen = []
        async for one in watches.of("key", make).follow(PATIENCE_S, PATIENCE_S):
            seen.append(one)
            if len(seen) == 5:
                break
        return seen

    async with asyncio.timeout(PATIENCE_S):
        all_seen = await asyncio.gather(*(follow() for _ in range(20)))
        assert all(seen == sorted(seen) for seen in all_seen)
        assert looks < 20 * 5
        watch = watches.of("key", make)
        await watch.task
    assert watch.ended
    await watches.close()


async def test_a_look_that_fails_is_told_and_the_next_one_may_do_better() -> None:
    from chasqui_engine.values.errors import RedisError

    answers: list[Any] = [RedisError("away"), "back"]

    async def look() -> Any:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    watches = Feeds(0.01, 10)
    seen: list[Any] = []
    async with asyncio.timeout(PATIENCE_S):
        async for one in watches.of("key", lambda: look).follow(PATIENCE_S, PATIENCE_S):
            seen.append(one)
            if one == "back":
                break
    assert seen[-1] == "back"
    await watches.close()


def test_streams_of_open_pages_do_not_hold_up_the_end(valkey_url: str, queue_name: str) -> None:
    place = {"connection": "main", "queue": queue_name}
    with httpx.Client() as client, contextlib.ExitStack() as opened:
        with Served(app_for(valkey_url, AnyGuard())) as served:
            stream = client.stream("GET", f"{served.url}api/queue/live", params=place, timeout=PATIENCE_S)
            lines = opened.enter_context(stream).iter_lines()
            assert next(lines).startswith("retry")
        # Leaving the block has waited for the end; the stream ended with it, properly.
        assert list(lines)[-1] == ""
