"""Actions on jobs: those that wait, are delayed or dead, one job, a new one, and repeatables."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import JobState, Queue, RepeatPattern
from tests.support.consumers import consuming
from tests.support.dashboards import audited, dead_fields, dead_key
from tests.support.queues import delayed_jobs, server_ms, waiting_jobs
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job
    from tests.dashboard.integration.conftest import Api, Opener

HOUR_MS = 3_600_000


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "chasqui.audit")
    return caplog


def line_of(log: pytest.LogCaptureFixture) -> dict[str, Any]:
    """The only line of the audit log, without its time."""
    [line] = audited(log)
    assert line.pop("at")
    assert (line.pop("user"), line.pop("connection")) == ("ada", "main")
    return line


async def test_waiting_jobs_are_removed_by_their_entries(api: Api, queue: Queue, log: pytest.LogCaptureFixture) -> None:
    await queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    ids = [row["entry_id"] for row in (await api.get("queue/waiting"))["rows"]]
    assert await api.post("queue/waiting/remove", {"ids": [*ids[:2], "1-1"]}) == {"selected": 3, "done": 2}
    assert [one.entry_id for one in await queue.list_waiting()] == ids[2:]
    assert line_of(log) == {"action": "remove", "queue": queue.name, "entries": [*ids[:2], "1-1"], "count": 2}


async def test_delayed_jobs_run_now_later_or_never(
    api: Api, queue: Queue, raw: Redis, log: pytest.LogCaptureFixture
) -> None:
    jobs = [(await queue.add("n", n, delay_ms=HOUR_MS)).id for n in range(4)]
    assert (await api.post("queue/delayed/run", {"ids": [jobs[0], "gone"]}))["done"] == 1
    assert [job.id for job in await waiting_jobs(raw, queue.name)] == [jobs[0]]
    at_ms = await server_ms(raw) + 5 * HOUR_MS
    answer = await api.post("queue/delayed/reschedule", {"ids": jobs[1:3], "at_ms": at_ms})
    assert answer == {"selected": 2, "done": 2}
    assert (await api.post("queue/delayed/cancel", {"ids": [jobs[2], jobs[3]]}))["done"] == 2
    assert [(job.id, run_at) for job, run_at in await delayed_jobs(raw, queue.name)] == [(jobs[1], at_ms)]
    told = [(one["action"], one["ids"], one["count"]) for one in audited(log)]
    assert told == [("run now", [jobs[0], "gone"], 1), ("reschedule", jobs[1:3], 2), ("cancel", jobs[2:], 2)]
    assert audited(log)[1]["at_ms"] == at_ms


async def test_one_job_is_removed_wherever_it_is_unless_it_runs(
    api: Api, queue: Queue, raw: Redis, log: pytest.LogCaptureFixture
) -> None:
    running, waiting = (await queue.add("n", 1)).id, (await queue.add("n", 2)).id
    later = (await queue.add("n", 3, delay_ms=HOUR_MS)).id
    await raw.xadd(dead_key(queue.name), dead_fields(1, job_id="dead"))
    await raw.xgroup_create(queue.stream_key, "default", "0")
    await raw.xreadgroup("default", "worker", {queue.stream_key: ">"}, count=1)
    for job_id in (waiting, later, "dead"):
        assert await api.post("queue/job/remove", {"id": job_id}) == {"selected": 1, "done": 1, "active": False}
        assert (await queue.get_job(job_id)).state is JobState.UNKNOWN
    assert await api.post("queue/job/remove", {"id": running}) == {"selected": 1, "done": 0, "active": True}
    assert await api.post("queue/job/remove", {"id": "none"}) == {"selected": 1, "done": 0, "active": False}
    assert [one["count"] for one in audited(log)] == [1, 1, 1, 0, 0]


async def test_one_job_is_aborted_wherever_it_is(
    api: Api, queue: Queue, redis_url: str, log: pytest.LogCaptureFixture
) -> None:
    begun = []

    async def run(job: Job) -> None:
        begun.append(job.id)
        await asyncio.sleep(60)

    later = (await queue.add("n", 1, delay_ms=HOUR_MS)).id
    running = (await queue.add("n", 2)).id
    async with consuming(redis_url, queue.name, run):
        await until(lambda: begun)
        for job_id, state in ((later, "removed"), (running, "aborted"), (running, "gone")):
            answer = await api.post("queue/job/abort", {"id": job_id})
            assert answer == {"selected": 1, "done": int(state != "gone"), "state": state}
    told = [(one["action"], one["ids"], one["state"], one["count"]) for one in audited(log)]
    assert told == [
        ("abort", [later], "removed", 1), ("abort", [running], "aborted", 1), ("abort", [running], "gone", 0)
    ]  # fmt: skip


async def test_a_job_is_added_with_all_its_options(
    api: Api, queue: Queue, raw: Redis, log: pytest.LogCaptureFixture
) -> None:
    plain = await api.post("queue/add", {"name": "welcome", "payload": '{"to": "ada", "raw": {"$bytes": "/w=="}}'})
    assert plain["added"] is True
    assert line_of(log) == {
        "action": "add", "queue": queue.name, "name": "welcome", "ids": [plain["id"]], "count": 1
    }  # fmt: skip
    at_ms = await server_ms(raw) + HOUR_MS
    own = {"payload": "[1, null]", "id": f"own-{queue.name}", "at_ms": at_ms, "attempts": 5, "backoff_ms": 1000}
    assert await api.post("queue/add", own) == {"id": own["id"], "added": True}
    assert await api.post("queue/add", own) == {"id": own["id"], "added": False}
    [job] = await waiting_jobs(raw, queue.name)
    assert (job.id, job.name, job.payload) == (plain["id"], "welcome", {"to": "ada", "raw": b"\xff"})
    [(later, run_at_ms)] = await delayed_jobs(raw, queue.name)
    assert (later.id, later.payload, run_at_ms) == (own["id"], [1, None], at_ms)
    assert later.retry is not None
    assert later.retry.backoff is not None
    assert (later.retry.max_attempts, later.retry.backoff.delay_ms) == (5, 1000)


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("add", {"payload": "{"}, "payload: not JSON"),
        ("add", {"payload": str(2**70)}, "payload: "),
        ("add", {"payload": "[" * 70 + "]" * 70}, "payload: "),
        ("add", {"payload": "1", "name": "n" * 300}, "name must be at most 256"),
        ("add", {"payload": "1", "id": " "}, "job_id"),
        ("add", {"payload": "1", "attempts": 0}, "attempts: "),
        ("add", {"payload": "1", "at_ms": -1}, "at_ms"),
        ("add", {"name": "n"}, "payload: Field required"),
        ("add", {"payload": "1", "delay": 1}, "delay: "),
        ("delayed/run", {"ids": []}, "ids: pass the id"),
        ("delayed/cancel", {"ids": [""]}, "job_id"),
        ("delayed/reschedule", {"ids": ["a"]}, "at_ms: Field required"),
        ("waiting/remove", {"ids": ["*"]}, "is not the id of"),
        ("job/remove", {"id": ""}, "job_id"),
        ("job/abort", {"id": " "}, "job_id"),
        ("dead/edit", {"id": "1-1", "payload": "nope"}, "payload: not JSON"),
        ("dead/edit", {"id": "x", "payload": "1"}, "is not the id of"),
        ("repeatables/fire", {}, "key: Field required"),
        ("repeatables/burn", {"key": "k"}, "action: Input should be"),
    ],
)
async def test_what_is_wrong_is_named(api: Api, queue: Queue, path: str, body: Any, words: str) -> None:
    answer = await api.post(f"queue/{path}", body, expect=400)
    assert words in answer["error"]["message"]
    assert not await queue.list_waiting()


async def test_a_dead_letter_is_edited_and_replayed(
    api: Api, queue: Queue, raw: Redis, log: pytest.LogCaptureFixture
) -> None:
    dlq_id = (await raw.xadd(dead_key(queue.name), dead_fields({"to": "adda", "raw": b"\xff"}))).decode()
    text = (await api.get("queue/dead/editable", id=dlq_id))["payload"]
    body = {"id": dlq_id, "payload": text.replace("adda", "ada")}
    assert await api.post("queue/dead/edit", body) == {"selected": 1, "done": 1, "next": None}
    [job] = await waiting_jobs(raw, queue.name)
    assert (job.id, job.payload, job.attempt) == ("job-1", {"to": "ada", "raw": b"\xff"}, 0)
    assert (await api.get("queue/dead"))["rows"] == []
    assert (await api.post("queue/dead/edit", body))["done"] == 0
    assert [(one["action"], one["ids"], one["count"]) for one in audited(log)] == [
        ("edit and replay", [dlq_id], 1),
        ("edit and replay", [dlq_id], 0),
    ]


@pytest.mark.parametrize(
    "payload",
    [float("nan"), {1: "a"}, {"$bytes": "/w=="}, msgpack.Timestamp(1, 0), "\ud800".encode(errors="surrogatepass")],
    ids=["nan", "number as key", "looks like bytes", "timestamp", "bytes"],
)
async def test_a_payload_that_json_cannot_hold_is_not_edited(api: Api, queue: Queue, raw: Redis, payload: Any) -> None:
    envelope = msgpack.packb(["job-1", msgpack.packb(payload), 1_700_000_000_000, 1])
    dlq_id = (await raw.xadd(dead_key(queue.name), {"d": envelope, "reason": "malformed"})).decode()
    response = await api.client.get("/api/queue/dead/editable", params={**api.place, "id": dlq_id})
    if isinstance(payload, bytes):
        assert response.json()["payload"] == '{\n  "$bytes": "7aCA"\n}'
    else:
        assert (response.status_code, "JSON has not" in response.text) == (409, True)


async def test_what_is_unreadable_too_large_or_gone_is_not_edited(api: Api, queue: Queue, raw: Redis) -> None:
    broken = (await raw.xadd(dead_key(queue.name), {"d": b"\xc1", "reason": "malformed"})).decode()
    large = (await raw.xadd(dead_key(queue.name), dead_fields("x" * 200_000))).decode()
    assert (await api.problem("queue/dead/editable", id=broken))[0] == 409
    status, message = await api.problem("queue/dead/editable", id=large)
    assert (status, "larger than 128 KiB" in message) == (409, True)
    assert (await api.problem("queue/dead/editable", id="1-1"))[0] == 404


@pytest.mark.parametrize("payloads", ["mask", "hide"])
async def test_hidden_payloads_are_not_edited(open_api: Opener, raw: Redis, queue_name: str, payloads: str) -> None:
    dlq_id = (await raw.xadd(dead_key(queue_name), dead_fields({"secret": 1}))).decode()
    async with open_api(payloads=payloads) as api:
        status, message = await api.problem("queue/dead/editable", id=dlq_id)
        assert (status, "secret" in message) == (403, False)
        await api.post("queue/dead/edit", {"id": dlq_id, "payload": "1"}, expect=403)
    assert await raw.xlen(dead_key(queue_name)) == 1


async def test_repeatables_are_fired_paused_resumed_and_removed(
    api: Api, queue: Queue, log: pytest.LogCaptureFixture
) -> None:
    key = (await queue.add("report", {"n": 1}, repeat=RepeatPattern.every(HOUR_MS))).id
    fired = await api.post("queue/repeatables/fire", {"key": key})
    assert [one.job_id for one in await queue.list_waiting()] == [fired["id"]]
    assert await api.post("queue/repeatables/pause", {"key": key}) == {"changed": True, "id": None}
    [row] = (await api.get("queue/repeatables"))["rows"]
    assert (row["paused"], row["fires"]) == (True, [])
    assert (await api.post("queue/repeatables/pause", {"key": key}))["changed"] is False
    assert (await api.post("queue/repeatables/resume", {"key": key}))["changed"] is True
    [row] = (await api.get("queue/repeatables"))["rows"]
    assert (row["paused"], len(row["fires"])) == (False, 5)
    assert (await api.post("queue/repeatables/remove", {"key": key}))["changed"] is True
    for action in ("fire", "remove"):
        await api.post(f"queue/repeatables/{action}", {"key": key}, expect=404)
    told = [(one["action"], one["key"]) for one in audited(log)]
    words = ("fire", "pause", "pause", "resume", "remove", "fire", "remove")
    assert told == [(f"{word} repeatable", key) for word in words]
