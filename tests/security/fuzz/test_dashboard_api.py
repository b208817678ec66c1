"""The dashboard's API on a queue that anybody wrote into: every route answers, in time, with what is good."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")

import httpx

from tests.dashboard.integration.conftest import Api
from tests.support.dashboards import AnyGuard, app_for
from tests.support.hostile.seeds import COUNT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis

    from tests.support.hostile.filling import Filled

MOST_S = 10.0
"""For one answer, on a busy machine; each takes milliseconds."""
PAGES = 200
MOST_REPEATABLES = 500
"""Of a queue, the next to fire first; the good ones fire last."""
LONGEST_ID = 1024


class Timed(Api):
    """Each answer is there in time, and is JSON that every reader takes."""

    async def get(self, path: str, **params: Any) -> Any:
        begun = time.monotonic()
        told = await super().get(path, **params)
        assert time.monotonic() - begun < MOST_S, path
        json.dumps(told, allow_nan=False)
        return told

    async def rows(self, path: str, cursor: str | None = None, **params: Any) -> list[dict[str, Any]]:
        """All pages of a list; each leads to the next."""
        found: list[dict[str, Any]] = []
        more: Any = None
        for _ in range(PAGES):
            page = await self.get(path, **params, **({cursor: more} if cursor and more is not None else {}))
            found += page["rows"]
            more = page["next"]
            if more is None or cursor is None:
                return found
        raise AssertionError(f"{path} has no end")


@contextlib.asynccontextmanager
async def opened(url: str, queue: str, **settings: Any) -> AsyncIterator[Timed]:
    app = app_for(url, AnyGuard(), page_size=7 + COUNT // 20, **settings)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
            yield Timed(client, queue)
    finally:
        await app.state.dashboard.close()


@pytest.mark.parametrize("payloads", ["show", "mask", "hide"])
async def test_every_list_goes_on_to_its_end_with_all_that_is_good(
    valkey_url: str, filled: Filled, payloads: str
) -> None:
    async with opened(valkey_url, filled.queue, payloads=payloads) as api:
        active = await api.rows("queue/active")
        waiting = await api.rows("queue/waiting", "after")
        delayed = await api.rows("queue/delayed", "start")
        dead = await api.rows("queue/dead", "before")
        repeating = await api.rows("queue/repeatables")
        await api.rows("queue/dead", "before", reason="retries_exhausted", error="x")
        found = {row["id"] for row in [*active, *waiting, *delayed, *dead]}
        assert {*filled.good["stream"][-1:], *filled.good["delayed"], *filled.good["dlq"]} <= found
        assert len(repeating) == MOST_REPEATABLES or {row["key"] for row in repeating} >= set(filled.good["repeat"])
        assert len(delayed) == filled.counts["delayed"]
        assert len(dead) == filled.counts["dlq"]
        for row in dead:
            assert (await api.get("queue/dead/one", id=row["dlq_id"]))["dlq_id"] == row["dlq_id"]
        last = dead[0]["dlq_id"]
        export = await api.client.get("/api/queue/dead/export", params={**api.place, "until": last})
        exported = [json.loads(line)["dlq_id"] for line in export.text.splitlines()]
        assert exported == [row["dlq_id"] for row in dead[::-1]]


async def test_every_job_has_a_page(valkey_url: str, client: redis.Redis, filled: Filled) -> None:
    states = {"stream": ("waiting", "active"), "delayed": ("delayed",), "dlq": ("dead",), "result": ("completed",)}
    async with opened(valkey_url, filled.queue) as api:
        for place, wanted in states.items():
            for job_id in filled.good[place]:
                assert (await api.get("queue/job", id=job_id))["job"]["state"] in wanted
        for row in [*await api.rows("queue/waiting", "after"), *await api.rows("queue/dead", "before")]:
            if (row["id"] or "").strip() and len(row["id"]) <= LONGEST_ID:
                told = await api.get("queue/job", id=row["id"])
                assert told["job"]["id"] == row["id"]
        for event_id in told_ids(client, filled.queue):
            assert await api.get("queue/job", id=event_id)


def told_ids(client: redis.Redis, queue: str) -> set[str]:
    """Ids of which events tell, as far as they are ids."""
    entries: Any = client.xrange(f"{{chasqui:{queue}}}:events")
    ids = {fields.get(b"id", b"").decode(errors="replace") for _, fields in entries}
    return {job_id for job_id in ids if job_id.strip() and len(job_id) <= LONGEST_ID}


async def test_queues_are_told_among_hostile_ones_and_their_keys(valkey_url: str, filled: Filled) -> None:
    async with opened(valkey_url, filled.queue) as api:
        assert (await api.get("me"))["user"] == "ada"
        [connection] = (await api.get("queues"))["connections"]
        assert filled.queue in [row["queue"] for row in connection["queues"]]
        assert (await api.get("queues/search", text="fuzz"))["queues"][0]["queue"] == filled.queue
        for text in ("\x1b", "\0", "*", "[", "\\", "{", "ｗ"):
            await api.get("queues/search", text=text)
        for minutes in (5, 15, 60):
            assert (await api.get("queue", minutes=minutes))["dead"] == filled.counts["dlq"]


async def test_what_is_good_is_replayed_and_the_rest_deleted(
    valkey_url: str, client: redis.Redis, filled: Filled
) -> None:
    key = f"{{chasqui:{filled.queue}}}:dlq"
    async with opened(valkey_url, filled.queue) as api:
        dead = await api.rows("queue/dead", "before")
        good = [row["dlq_id"] for row in dead if row["id"] in filled.good["dlq"]]
        assert (await api.post("queue/dead/replay", {"ids": good}))["done"] == len(good)
        until = dead[0]["dlq_id"]
        for path in ("queue/dead/replay", "queue/dead/delete"):
            told: dict[str, Any] = {"next": None}
            for _ in range(PAGES):
                told = await api.post(path, {"filter": {}, "until": until, "after": told["next"]})
                if told["next"] is None:
                    break
            assert told["next"] is None
        assert client.xlen(key) == 0
        for path in ("queue/pause", "queue/resume"):
            assert (await api.post(path))["changed"]
