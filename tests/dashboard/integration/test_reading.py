"""What the API tells about queues and jobs."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import Job, RepeatableSpec, RepeatPattern, UnrecoverableError, Worker
from chasqui_engine.dashboard.api import by_name
from chasqui_engine.queue.producer import Producer
from tests.support.dashboards import PATIENCE_S, dead_fields, dead_key, eventually

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Queue
    from tests.dashboard.integration.conftest import Api, Opener


async def test_queues_are_found_with_how_they_stand(api: Api, queue: Queue) -> None:
    await queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    await queue.add("later", 1, delay_ms=60_000)
    await queue.pause()

    def mine(told: Any) -> Any:
        return [row for row in told["connections"][0].get("queues", ()) if row["queue"] == queue.name]

    told = await eventually(lambda: api.get("queues"), mine)
    [row] = mine(told)
    assert (row["waiting"], row["delayed"], row["dead"], row["paused"]) == (3, 1, 0, True)
    assert row["oldest_waiting_ms"] >= 0
    assert told["connections"][0]["name"] == "main"
    assert "redis://" not in told["connections"][0]["address"]


async def test_queues_that_need_somebody_say_so(
    open_api: Opener, queue: Queue, raw: Redis, redis_url: str, queue_name: str
) -> None:
    stream = f"{{chasqui:{queue_name}}}:stream"
    seconds, _ = await raw.time()

    def alarms(view: Any) -> tuple[bool, bool]:
        return view["lacks_workers"], view["waits_too_long"]

    async with open_api(alarm_after_s=60) as api:
        await raw.xadd(stream, {"d": b"x"}, id=f"{seconds * 1000 - 50_000}-0")
        assert alarms(await api.get("queue")) == (True, False)
        await raw.xgroup_create(stream, "default", "0")
        await raw.xgroup_createconsumer(stream, "default", "w")
        seen = await eventually(lambda: api.get("queue"), lambda view: view["workers"] == 1)
        assert alarms(seen) == (False, False)
        await raw.delete(stream)
        await raw.xadd(stream, {"d": b"x"}, id=f"{seconds * 1000 - 120_000}-0")
        await eventually(lambda: api.get("queue"), lambda view: alarms(view) == (True, True))
        await queue.pause()
        await eventually(lambda: api.get("queue"), lambda view: alarms(view) == (False, True))
        [row] = (await api.get("queues/search", text=queue_name))["queues"]
        assert alarms(row) == (False, True)


async def test_a_queue_beyond_the_list_is_found_by_its_name(open_api: Opener, queue: Queue) -> None:
    await queue.add("n", 1)
    async with open_api(most_queues=1) as api:
        told = await api.get("queues/search", text=queue.name.upper())
    assert [row["queue"] for row in told["queues"]] == [queue.name]


async def test_a_queue_with_its_series(api: Api, queue: Queue, redis_url: str) -> None:
    async def handle(job: Job) -> None:
        if job.data == "bad":
            raise UnrecoverableError("never")

    worker = Worker(queue.name, handle, redis_url=redis_url)
    running = asyncio.create_task(worker.run())
    await queue.add_bulk([{"name": "n", "data": "good"} for _ in range(5)])
    await queue.add("n", "bad")
    look = await eventually(
        lambda: api.get("queue", minutes=5),
        lambda view: sum(view["series"]["completed"]) > 0 and sum(view["series"]["dead"]) > 0 and view["dead"],
    )
    await worker.close()
    await running
    series = look["series"]
    assert len(series["completed"]) == len(series["p95_ms"]) == len(series["p99_ms"]) == 60
    assert [value for value in series["p50_ms"] if value is not None]
    assert look["consumers"][0]["name"]
    assert look["now_ms"] > series["since_ms"]


async def test_jobs_that_wait_page_by_page(open_api: Opener, queue: Queue) -> None:
    await queue.add_bulk([{"name": f"n{n}", "data": {"n": n}} for n in range(5)])
    async with open_api(page_size=2) as api:
        names: list[str] = []
        page = await api.get("queue/waiting")
        names += [row["name"] for row in page["rows"]]
        while page["next"]:
            page = await api.get("queue/waiting", after=page["next"])
            names += [row["name"] for row in page["rows"]]
    assert names == ["n0", "n1", "n2", "n3", "n4"]


async def test_jobs_in_the_hands_of_workers(api: Api, queue: Queue, redis_url: str) -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def handle(job: Job) -> None:
        begun.set()
        await end.wait()

    worker = Worker(queue.name, handle, redis_url=redis_url)
    running = asyncio.create_task(worker.run())
    job = await queue.add("slow", {"n": 1})
    async with asyncio.timeout(PATIENCE_S):
        await begun.wait()
    [row] = (await api.get("queue/active"))["rows"]
    assert (row["id"], row["name"], row["payload"], row["deliveries"]) == (job.id, "slow", '{"n": 1}', 1)
    assert row["consumer"]
    assert (await api.get("queue/waiting"))["rows"] == []
    end.set()
    await worker.close()
    await running


async def test_delayed_jobs_page_by_page(open_api: Opener, queue: Queue) -> None:
    for n in range(3):
        await queue.add(f"n{n}", n, delay_ms=60_000 * (n + 1))
    async with open_api(page_size=2) as api:
        first = await api.get("queue/delayed")
        second = await api.get("queue/delayed", start=first["next"])
    assert [row["name"] for row in first["rows"] + second["rows"]] == ["n0", "n1", "n2"]
    assert second["next"] is None
    assert first["rows"][0]["run_at_ms"] < first["rows"][1]["run_at_ms"]


@pytest.mark.parametrize("state", ["waiting", "delayed"])
async def test_jobs_of_one_name_page_by_page(
    open_api: Opener, queue: Queue, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    delay_ms = 600_000 if state == "delayed" else 0
    wanted = []
    for number in range(20):
        rare = number in (3, 4, 15, 19)
        job = await queue.add("rare" if rare else "many", number, delay_ms=delay_ms + number if delay_ms else 0)
        wanted += [job.id] if rare else []
    field = "after" if state == "waiting" else "start"

    async def pages(api: Api) -> list[list[str]]:
        got, at = [], {}
        while True:
            told = await api.get(f"queue/{state}", name="rare", **at)
            got.append([row["id"] for row in told["rows"]])
            if told["next"] is None:
                return got
            at = {field: told["next"]}

    async with open_api(page_size=2) as api:
        assert [one for page in await pages(api) for one in page] == wanted
        assert (await api.get(f"queue/{state}", name="no such"))["rows"] == []
        monkeypatch.setattr(by_name, "_MOST_READ", 4)
        bounded = await pages(api)
        assert [one for page in bounded for one in page] == wanted
        assert [] in bounded


async def test_repeatables_with_their_next_fires_in_their_own_zone(api: Api, redis_url: str, queue_name: str) -> None:
    from chasqui_engine import ProducerConfig

    async with await Producer.connect(redis_url, ProducerConfig(queue_name=queue_name)) as producer:
        pattern = RepeatPattern.cron("30 9 * * *", "Asia/Kolkata")
        await producer.upsert_repeatable(RepeatableSpec(job_name="report", pattern=pattern, payload=None, key="daily"))
    [row] = (await api.get("queue/repeatables"))["rows"]
    assert (row["key"], row["name"], row["cron"], row["tz"]) == ("daily", "report", "30 9 * * *", "Asia/Kolkata")
    assert len(row["fires"]) == 5
    assert all(fire.endswith("09:30:00+05:30") for fire in row["fires"])


async def test_dead_letters_newest_first_page_by_page(open_api: Opener, raw: Redis, queue_name: str) -> None:
    for n in range(5):
        await raw.xadd(dead_key(queue_name), dead_fields({"n": n}, job_id=f"job-{n}"))
    async with open_api(page_size=2) as api:
        first = await api.get("queue/dead")
        second = await api.get("queue/dead", before=first["next"])
        third = await api.get("queue/dead", before=second["next"])
    pages = [[row["id"] for row in page["rows"]] for page in (first, second, third)]
    assert pages == [["job-4", "job-3"], ["job-2", "job-1"], ["job-0"]]
    assert third["next"] is None
    assert first["total"] == 5
    assert first["rows"][0]["error"] == "ValueError: no"
    assert first["rows"][0]["code"] == "CMQ-020"
    assert json.loads(first["rows"][0]["payload"]) == {"n": 4}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"reason": "unrecoverable"}, ["b"]),
        ({"name": "other"}, ["c"]),
        ({"job_id": "a"}, ["a"]),
        ({"error": "TIMED out"}, ["b"]),
        ({"error": "no", "name": "welcome"}, ["a"]),
        ({"newer_than_s": 3600}, ["c", "b", "a"]),
        ({"older_than_s": 3600}, []),
    ],
    ids=str,
)
async def test_dead_letters_by_filter(
    api: Api, raw: Redis, queue_name: str, wanted: dict[str, Any], found: list[str]
) -> None:
    key = dead_key(queue_name)
    await raw.xadd(key, dead_fields(1, job_id="a"))
    await raw.xadd(key, dead_fields(1, job_id="b", reason="unrecoverable", error="IOError: timed out"))
    await raw.xadd(key, dead_fields(1, job_id="c", name="other"))
    assert [row["id"] for row in (await api.get("queue/dead", **wanted))["rows"]] == found


async def test_one_dead_letter_whole_and_one_that_is_gone(api: Api, raw: Redis, queue_name: str) -> None:
    dlq_id = (await raw.xadd(dead_key(queue_name), dead_fields({"text": "x" * 1000}))).decode()
    [row] = (await api.get("queue/dead"))["rows"]
    assert row["payload"].endswith("…")
    whole = await api.get("queue/dead/one", id=dlq_id)
    assert json.loads(whole["payload"]) == {"text": "x" * 1000}
    assert await api.problem("queue/dead/one", id="1-1") == (
        404,
        "This dead letter no longer exists: it was replayed or deleted.",
    )


async def test_a_death_is_shown_with_its_traceback(api: Api, queue: Queue, redis_url: str) -> None:
    async def dig(job: Job) -> None:
        job.log("one metre down")
        raise UnrecoverableError("bedrock")

    job = await queue.add("dig", 1)
    worker = Worker(queue.name, dig, redis_url=redis_url)
    running = asyncio.create_task(worker.run())
    told = await eventually(lambda: api.get("queue/job", id=job.id), lambda told: told["job"]["state"] == "dead")
    await worker.close()
    await running
    assert "in dig\n" in told["job"]["traceback"]
    assert told["log"] == {"lines": ["one metre down"], "count": 1}
    assert told["job"]["consumer"] == worker.consumer_id
    [failed] = [event for event in told["events"] if event["event"] == "failed"]
    assert failed["fields"]["error_type"] == "UnrecoverableError"
    [row] = (await api.get("queue/dead"))["rows"]
    whole = await api.get("queue/dead/one", id=row["dlq_id"])
    assert whole["traceback"] == told["job"]["traceback"]


async def test_what_cannot_be_read_is_shown_as_such(api: Api, raw: Redis, queue_name: str) -> None:
    await raw.xadd(dead_key(queue_name), {"d": b"\xc1", "reason": "decode_failed", "source_id": "1-1"})
    await raw.xadd(f"{{chasqui:{queue_name}}}:stream", {"d": b"\xc1"})
    [dead] = (await api.get("queue/dead"))["rows"]
    assert (dead["readable"], dead["payload"], dead["id"]) == (False, None, None)
    assert dead["unreadable"]
    [waiting] = (await api.get("queue/waiting"))["rows"]
    assert (waiting["readable"], waiting["id"]) == (False, None)


async def test_a_jobs_timeline(api: Api, queue: Queue, redis_url: str) -> None:
    async def handle(job: Job) -> None:
        await job.update_progress({"percent": 50})
        raise ValueError(f"run {job.attempt}")

    worker = Worker(queue.name, handle, redis_url=redis_url)
    running = asyncio.create_task(worker.run())
    job = await queue.add("n", {"to": "ada"}, attempts=2, backoff=10)
    # Asked while it dies, the events may tell of the death before the dead letter was looked for.
    told = await eventually(
        lambda: api.get("queue/job", id=job.id),
        lambda one: one["job"]["state"] == "dead" and one["job"]["payload_known"],
    )
    await worker.close()
    await running
    steps = [event["event"] for event in told["events"]]
    assert steps[0] == "active"
    assert steps[-1] == "dlq"
    assert steps.count("failed") == 2
    assert {"retry-scheduled", "waiting", "progress"} <= set(steps)
    assert told["events"][0]["at_ms"] <= told["events"][-1]["at_ms"]
    assert told["job"]["last_error"] == "ValueError: run 1"
    assert json.loads(told["job"]["payload"]) == {"to": "ada"}


@pytest.mark.parametrize(
    ("payloads", "shown"), [("show", '"sent": "ada"'), ("mask", '"sent": "‹text›"'), ("hide", None)]
)
async def test_a_job_that_ended_well_with_its_result(
    open_api: Opener, queue: Queue, redis_url: str, payloads: str, shown: str | None
) -> None:
    async def handle(job: Job) -> dict[str, Any]:
        return {"sent": job.data, "much": ["x" * 1000] * 200}

    worker = Worker(queue.name, handle, redis_url=redis_url, store_results=True)
    running = asyncio.create_task(worker.run())
    job = await queue.add("n", "ada", attempts=3)
    await job.wait_for_result(timeout=PATIENCE_S)
    async with open_api(payloads=payloads) as api:
        told = await eventually(
            lambda: api.get("queue/job", id=job.id), lambda one: one["job"]["duration_ms"] is not None
        )
    await worker.close()
    await running
    told = told["job"]
    assert (told["state"], told["attempt"], told["result_known"]) == ("completed", 1, True)
    assert told["started_at_ms"] <= told["ended_at_ms"]
    if shown is None:
        assert told["result"] is None
    else:
        assert shown in told["result"]
        assert len(told["result"]) < 60_000


async def test_a_result_that_cannot_be_read_is_said_to_be(api: Api, raw: Redis, queue_name: str) -> None:
    await raw.set(f"{{chasqui:{queue_name}}}:result:odd", b"\xc1")
    told = (await api.get("queue/job", id="odd"))["job"]
    assert (told["state"], told["result"].partition(":")[0]) == ("completed", "cannot be read")


async def test_a_job_with_a_payload_that_is_nested_deep(api: Api, queue: Queue) -> None:
    deep: Any = "the bottom"
    for _ in range(500):
        deep = [deep]
    await queue.add("n", deep, job_id="deep")
    told = await api.get("queue/job", id="deep")
    assert told["job"]["state"] == "waiting"
    assert told["job"]["payload"].startswith("[")


async def test_a_job_that_never_was(api: Api) -> None:
    told = await api.get("queue/job", id="nobody")
    assert (told["job"]["state"], told["events"]) == ("unknown", [])


@pytest.mark.parametrize(
    ("path", "params", "status", "words"),
    [
        ("queue", {"connection": "other"}, 404, "no connection 'other'"),
        ("queue", {"queue": "{x}"}, 400, "queue must not contain braces"),
        ("queue", {"queue": " "}, 400, "queue must not be empty"),
        ("queue", {"minutes": 7}, 400, "minutes must be one of 5, 15, 60"),
        ("queue", {"minutes": "x"}, 400, "minutes"),
        ("queue/dead", {"before": "+"}, 400, "is not the id of a dead letter"),
        ("queue/dead", {"error": "x" * 2000}, 400, "error"),
        ("queue/dead/one", {"id": "- + COUNT 1"}, 400, "is not the id of a dead letter"),
        ("queue/dead/export", {}, 400, "pass either ids or until"),
        ("queue/waiting", {"after": "-"}, 400, "is not the id"),
        ("queue/delayed", {"start": -1}, 400, "start"),
        ("queue/job", {"id": " "}, 400, "job_id"),
        ("nothing", {}, 404, "Not Found"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_name(
    api: Api, path: str, params: dict[str, Any], status: int, words: str
) -> None:
    got, message = await api.problem(path, **params)
    assert got == status
    assert words in message


async def test_a_server_that_is_away_is_told_and_holds_up_nothing() -> None:
    import httpx

    from chasqui_engine.dashboard import DashboardSettings, FixedConnections, create_app
    from tests.support.dashboards import AnyGuard

    away = "redis://:secret-word@127.0.0.1:1/0"
    app = create_app(FixedConnections({"away": away}), AnyGuard(), DashboardSettings(live_interval_s=0.1))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://dashboard") as client:
        first = (await client.get("/api/queues")).json()["connections"][0]
        assert first.get("pending") or first.get("error")

        async def look() -> Any:
            return (await client.get("/api/queues")).json()["connections"][0]

        told = await eventually(look, lambda one: one.get("error"))
        assert told["error"]["code"] == "CMQ-001"
        response = await client.get("/api/queue", params={"connection": "away", "queue": "q"})
        assert response.status_code == 503
        assert "secret-word" not in json.dumps(told) + response.text
    await app.state.dashboard.close()


async def test_connections_to_one_server_are_told_apart_from_others(valkey_url: str, queue_name: str) -> None:
    import httpx

    from chasqui_engine.dashboard import DashboardSettings, FixedConnections, create_app
    from tests.support.dashboards import AnyGuard

    base = valkey_url.rpartition("/")[0]
    same = base.replace("127.0.0.1", "localhost")
    urls = {
        "a": f"{base}/0",
        "b": f"{same}/0",
        "c": f"{base}/1",
        "d": f"{base}/1?socket_timeout=9",
        "e": "redis://127.0.0.1:1",
    }
    app = create_app(FixedConnections(urls), AnyGuard(), DashboardSettings(live_interval_s=0.1))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://dashboard") as client:

        async def look() -> Any:
            return (await client.get("/api/queues")).json()["connections"]

        seen = await eventually(look, lambda found: sum("address" in one for one in found) == 4)
    await app.state.dashboard.close()
    assert {one["name"]: one["same_as"] for one in seen} == {"a": None, "b": "a", "c": None, "d": "c", "e": None}
    assert not any("server" in one for one in seen)
