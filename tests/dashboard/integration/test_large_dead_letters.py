"""Dead letters of a megabyte each: what a request holds at a time is bounded by bytes, not by their number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from redis.asyncio import Redis

from chasqui_engine.dashboard.api import dead_letter_query
from chasqui_engine.queue.producer import Producer
from chasqui_engine.values.config import ProducerConfig
from tests.support.dashboards import dead_fields, dead_key

if TYPE_CHECKING:
    from chasqui_engine import Queue
    from tests.dashboard.integration.conftest import Api

LETTERS = 40
MIB = 2**20


@pytest.fixture
async def last(queue: Queue, redis_url: str) -> str:
    """Fills the dead letters; the id of the last."""
    async with Redis.from_url(redis_url) as client:
        for n in range(LETTERS):
            fields: Any = dead_fields("x" * MIB, job_id=f"job-{n}", error=f"number {n}")
            last = await client.xadd(dead_key(queue.name), fields)
    return str(last.decode())


@pytest.mark.usefixtures("last")
async def test_a_page_of_dead_letters_ends_at_its_bytes(queue: Queue, redis_url: str) -> None:
    async with await Producer.connect(redis_url, ProducerConfig(queue_name=queue.name)) as producer:
        for page in (await producer.page_dlq(None), await producer.page_newest_dlq(None)):
            assert 8 <= sum(len(entry.payload) for entry in page) // MIB <= 9
        assert len(await producer.peek_dlq(LETTERS)) == LETTERS
        found = await dead_letter_query.find(
            producer, dead_letter_query.Selected(filter=dead_letter_query.Wanted(), until="9999999999999-0")
        )
        assert 16 <= sum(len(entry.payload) for entry in found.entries) // MIB <= 25
        assert found.next == found.entries[-1].dlq_id


async def test_all_are_replayed_part_by_part(api: Api, last: str, queue: Queue) -> None:
    body: dict[str, Any] = {"filter": {}, "until": last}
    done = requests = 0
    while True:
        told = await api.post("queue/dead/replay", body)
        done, requests, body["after"] = done + told["done"], requests + 1, told["next"]
        if told["next"] is None:
            break
    assert done == LETTERS
    assert requests > 1
    assert (await queue.counts()).waiting == LETTERS


async def test_all_are_exported(api: Api, last: str) -> None:
    response = await api.client.get("/api/queue/dead/export", params={**api.place, "until": last})
    lines = [json.loads(line)["job_id"] for line in response.text.splitlines()]
    assert lines == [f"job-{n}" for n in range(LETTERS)]


async def test_those_of_many_ids_are_replayed_and_deleted(api: Api, last: str) -> None:
    rows = (await api.get("queue/dead"))["rows"]
    ids = [row["dlq_id"] for row in rows]
    assert ids[0] == last
    assert (await api.post("queue/dead/replay", {"ids": ids[:12]}))["done"] == 12
    assert (await api.post("queue/dead/delete", {"ids": ids[12:]}))["done"] == len(ids) - 12


async def test_a_filter_that_matches_none_finds_the_end(api: Api, last: str) -> None:
    before: str | None = None
    for _ in range(50):
        told = await api.get("queue/dead", error="no such text", **({"before": before} if before else {}))
        assert told["rows"] == []
        before = told["next"]
        if before is None:
            return
    pytest.fail(f"no end before {last}")
