"""Numbers, times and records that nobody would write: each is one odd row, and its page stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from chasqui_engine import RepeatPattern
from chasqui_engine.codec.envelope import encode_job
from chasqui_engine.codec.repeatable import encode_spec
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.schedule.spec import RepeatableSpec
from chasqui_engine.values.durations import FURTHEST_MS, iso
from chasqui_engine.values.job import Job
from tests.support.dashboards import dead_fields, dead_key

if TYPE_CHECKING:
    from chasqui_engine import Queue
    from tests.dashboard.integration.conftest import Api

DIGITS = ["9" * 400, "9" * 19, "1" + "0" * 5000, "-" + "9" * 300, "1e400", "nan", ""]


@pytest.mark.parametrize("number", DIGITS, ids=lambda text: f"{text[:3]}-{len(text)}")
async def test_an_event_with_any_number_leaves_the_queues_page(
    api: Api, queue: Queue, redis_url: str, number: str
) -> None:
    async with Redis.from_url(redis_url) as client:
        odd = {"e": "completed", "id": "a", "ts": number, "duration_us": number, "attempt": number}
        since = now_ms() - 20_000
        await client.xadd(f"{{chasqui:{queue.name}}}:events", odd, id=f"{since}-1")  # type: ignore[arg-type]
        good = {"e": "completed", "id": "a", "ts": "1700000000000", "duration_us": "1000"}
        await client.xadd(f"{{chasqui:{queue.name}}}:events", good, id=f"{since}-2")  # type: ignore[arg-type]
    told = await api.get("queue", minutes=5)
    assert sum(told["series"]["completed"]) > 0
    assert len((await api.get("queue/job", id="a"))["events"]) == 2


async def test_a_failure_record_that_cannot_be_read_leaves_the_jobs_page(
    api: Api, queue: Queue, redis_url: str
) -> None:
    async with Redis.from_url(redis_url) as client:
        for n, record in enumerate((b"\xc1", b"", b"\x93\x01\x02\x03", b"\x92\xa1x\xa1y")):
            await client.set(f"{{chasqui:{queue.name}}}:failure:job-{n}", record)
            told = await api.get("queue/job", id=f"job-{n}")
            assert told["job"]["state"] == "dead"


@pytest.mark.parametrize("at_ms", [253_402_300_800_000, FURTHEST_MS])
@pytest.mark.parametrize("pattern", [RepeatPattern.every(1000), RepeatPattern.cron("0 9 * * *", tz="Europe/London")])
async def test_a_repeatable_past_the_year_9999_is_listed(
    api: Api, queue: Queue, redis_url: str, at_ms: int, pattern: RepeatPattern
) -> None:
    spec = RepeatableSpec(job_name="far", pattern=pattern, payload=None, key="far")
    async with Redis.from_url(redis_url) as client:
        await client.zadd(f"{{chasqui:{queue.name}}}:repeat", {"far": at_ms})
        await client.hset(f"{{chasqui:{queue.name}}}:repeat:spec:far", "spec", encode_spec(spec))  # type: ignore[misc,arg-type]
    [row] = (await api.get("queue/repeatables"))["rows"]
    assert row["next_fire_ms"] == at_ms


async def test_a_long_text_takes_no_more_of_a_list_than_a_row_shows(api: Api, queue: Queue, redis_url: str) -> None:
    long = "x" * 72_000
    root, job = f"{{chasqui:{queue.name}}}", encode_job(Job(id=long, payload=1, created_at_ms=1, attempt=1))
    async with Redis.from_url(redis_url) as client:
        for _ in range(2):
            await client.xadd(f"{root}:stream", {"d": job, "n": long})
        await client.xgroup_create(f"{root}:stream", "default", "0")
        await client.xreadgroup("default", long, {f"{root}:stream": ">"}, count=1)
        await client.xadd(dead_key(queue.name), {"d": job, "n": long, "reason": long, "detail": long})
        await client.xadd(f"{root}:events", {"e": long, "id": "a", "ts": "1", long: long, "reason": long})
    for path in ("waiting", "active", "dead"):
        [row] = (await api.get(f"queue/{path}"))["rows"]
        assert all(len(str(value)) <= 1_025 for value in row.values()), path
        assert row["name"] == "x" * 300 + "…"
    [consumer] = (await api.get("queue"))["consumers"]
    assert len(consumer["name"]) == 301
    [event] = (await api.get("queue/job", id="a"))["events"]
    assert len(json.dumps(event)) < 10_000


async def test_an_export_of_too_many_ids_says_how_many_it_takes(api: Api, queue: Queue) -> None:
    await queue.add("n", 1)
    status, message = await api.problem("queue/dead/export", ids=",".join(f"{n}-0" for n in range(1001)))
    assert status == 400
    assert "ids" in message
    assert "1000" in message


async def test_a_dead_letter_of_any_id_keeps_none_from_being_replayed_or_exported(
    api: Api, queue: Queue, redis_url: str
) -> None:
    async with Redis.from_url(redis_url) as client:
        for entry_id in ("1-1", f"{2**63}-{2**64 - 1}", f"{2**64 - 2}-0"):
            await client.xadd(dead_key(queue.name), dead_fields(1, job_id=entry_id), id=entry_id)
    newest, middle, oldest = (row["dlq_id"] for row in (await api.get("queue/dead"))["rows"])
    assert [row["dlq_id"] for row in (await api.get("queue/dead", before=middle))["rows"]] == [oldest]
    assert (await api.get("queue/dead/one", id=newest))["id"] == newest
    assert (await api.post("queue/dead/replay", {"filter": {}, "until": newest}))["done"] == 3


@pytest.mark.parametrize("entry_id", [f"{2**64}-0", f"1-{2**64}", "9" * 21 + "-0"])
async def test_what_no_server_counts_is_no_id(api: Api, queue: Queue, entry_id: str) -> None:
    await queue.add("n", 1)
    assert (await api.problem("queue/dead/one", id=entry_id))[0] == 400


@pytest.mark.parametrize("ms", [10**400, -(10**400), float("inf"), float("nan"), 10**18, -1, 0])
def test_every_number_is_some_time(ms: float) -> None:
    assert iso(ms)
