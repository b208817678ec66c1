"""What the API changes: for whom, from where, and with which line in the audit log."""

from __future__ import annotations

import base64
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.codec.envelope import decode_job
from tests.support.dashboards import AnyGuard, app_for, audited, dead_fields, dead_key

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Queue
    from tests.dashboard.integration.conftest import Api, Opener

CHANGES = (
    "queue/pause",
    "queue/resume",
    "queue/dead/replay",
    "queue/dead/delete",
    "queue/dead/edit",
    "queue/waiting/remove",
    "queue/delayed/run",
    "queue/delayed/reschedule",
    "queue/delayed/cancel",
    "queue/job/remove",
    "queue/job/abort",
    "queue/add",
    "queue/repeatables/fire",
)


@pytest.fixture
async def dead(raw: Redis, queue_name: str) -> list[str]:
    """Six dead letters, the oldest first; every other one of another name."""
    fields = [dead_fields({"n": n}, job_id=f"job-{n}", name="odd" if n % 2 else "even") for n in range(6)]
    return [(await raw.xadd(dead_key(queue_name), one)).decode() for one in fields]


async def left(raw: Redis, queue: str) -> list[str]:
    return [entry_id.decode() for entry_id, _ in await raw.xrange(dead_key(queue))]


async def on_the_stream(raw: Redis, queue: str) -> list[Any]:
    return [decode_job(fields[b"d"]) for _, fields in await raw.xrange(f"{{chasqui:{queue}}}:stream")]


async def test_pause_and_resume(api: Api, queue: Queue, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "chasqui.audit"):
        assert await api.post("queue/pause") == {"paused": True, "changed": True}
        assert await queue.is_paused()
        assert await api.post("queue/pause") == {"paused": True, "changed": False}
        assert await api.post("queue/resume") == {"paused": False, "changed": True}
    assert not await queue.is_paused()
    told = [(one["user"], one["action"], one["connection"], one["queue"]) for one in audited(caplog)]
    times = [datetime.fromisoformat(one["at"]) for one in audited(caplog)]
    assert all(datetime.now(UTC) - at < timedelta(minutes=5) for at in times)
    assert told == [("ada", action, "main", queue.name) for action in ("pause", "pause", "resume")]


async def test_replay_of_a_selection(
    api: Api, raw: Redis, queue_name: str, dead: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "chasqui.audit"):
        answer = await api.post("queue/dead/replay", {"ids": dead[1:3]})
    assert answer == {"selected": 2, "done": 2, "next": None}
    assert await left(raw, queue_name) == [dead[0], *dead[3:]]
    assert [(job.id, job.attempt) for job in await on_the_stream(raw, queue_name)] == [("job-1", 0), ("job-2", 0)]
    [line] = audited(caplog)
    assert (line["action"], line["ids"], line["count"]) == ("replay", dead[1:3], 2)
    # Gone already, it is not replayed again.
    assert (await api.post("queue/dead/replay", {"ids": dead[1:3]}))["done"] == 0
    assert len(await on_the_stream(raw, queue_name)) == 2


async def test_delete_of_a_selection(
    api: Api, raw: Redis, queue_name: str, dead: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "chasqui.audit"):
        assert (await api.post("queue/dead/delete", {"ids": dead[:4]}))["done"] == 4
    assert await left(raw, queue_name) == dead[4:]
    assert await on_the_stream(raw, queue_name) == []
    [line] = audited(caplog)
    assert (line["user"], line["action"], line["queue"], line["count"]) == ("ada", "delete", queue_name, 4)


@pytest.mark.parametrize("action", ["replay", "delete"])
async def test_all_that_match_but_none_that_died_later(
    api: Api, raw: Redis, queue_name: str, dead: list[str], action: str
) -> None:
    answer = await api.post(f"queue/dead/{action}", {"filter": {"name": "even"}, "until": dead[3]})
    assert answer == {"selected": 2, "done": 2, "next": None}
    assert await left(raw, queue_name) == [dead[1], dead[3], dead[4], dead[5]]


async def test_all_of_very_many_go_part_by_part(
    open_api: Opener, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chasqui_engine.dashboard.api import dead_letter_query

    monkeypatch.setattr(dead_letter_query, "_PAGE", 5)
    monkeypatch.setattr(dead_letter_query, "_MOST_READ", 20)
    async with raw.pipeline(transaction=False) as pipe:
        for n in range(57):
            pipe.xadd(dead_key(queue_name), dead_fields(n, job_id=str(n)))
        ids = await pipe.execute()
    body: dict[str, Any] = {"filter": {}, "until": ids[-1].decode(), "after": None}
    done = []
    async with open_api() as api:
        while True:
            answer = await api.post("queue/dead/delete", body)
            done.append(answer["done"])
            body["after"] = answer["next"]
            if not answer["next"]:
                break
    assert len(done) > 1
    assert sum(done) == 57
    assert await left(raw, queue_name) == []


async def test_what_cannot_be_read_stays_when_replayed(api: Api, raw: Redis, queue_name: str) -> None:
    dlq_id = (await raw.xadd(dead_key(queue_name), {"d": b"\xc1", "reason": "decode_failed"})).decode()
    assert await api.post("queue/dead/replay", {"ids": [dlq_id]}) == {"selected": 1, "done": 0, "next": None}
    assert await left(raw, queue_name) == [dlq_id]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "pass either ids or filter"),
        ({"ids": [], "filter": {}}, "pass either ids or filter"),
        ({"filter": {}}, "until: with a filter"),
        ({"filter": {"nmae": "x"}, "until": "1-1"}, "filter.nmae"),
        ({"ids": ["*"]}, "is not the id of a dead letter"),
        ({"ids": "1-1"}, "ids"),
        ({"ids": ["1-1"] * 1001}, "ids"),
        ([], "body"),
    ],
    ids=str,
)
async def test_a_selection_that_is_none_is_refused(
    api: Api, raw: Redis, queue_name: str, dead: list[str], body: Any, words: str
) -> None:
    answer = await api.post("queue/dead/delete", body, expect=400)
    assert words in answer["error"]["message"]
    assert await left(raw, queue_name) == dead


async def test_a_body_that_is_no_json_or_too_long(api: Api, dead: list[str]) -> None:
    token = (await api.get("me"))["csrf"]
    url, headers = "/api/queue/dead/delete", {"x-chasqui-csrf": token}
    form = await api.client.post(url, params=api.place, headers=headers, data={"ids": dead[0]})
    assert form.status_code == 415
    json_headers = {**headers, "content-type": "application/json"}
    broken = await api.client.post(url, params=api.place, headers=json_headers, content="{")
    assert (broken.status_code, "not JSON" in broken.text) == (400, True)
    long = await api.client.post(url, params=api.place, headers=json_headers, content="[" + " " * 300_000 + "]")
    assert long.status_code == 413


async def test_export_of_a_selection_and_of_all_that_match(
    api: Api, dead: list[str], queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "chasqui.audit"):
        some = await api.client.get("/api/queue/dead/export", params={**api.place, "ids": f"{dead[0]},{dead[5]}"})
        every = {**api.place, "until": dead[3], "name": "odd"}
        matching = await api.client.get("/api/queue/dead/export", params=every)
    assert some.headers["content-disposition"] == f'attachment; filename="dead-letters-{queue_name}.jsonl"'
    lines = [json.loads(line) for line in some.text.splitlines()]
    assert [line["job_id"] for line in lines] == ["job-0", "job-5"]
    assert decode_job(base64.b64decode(lines[0]["envelope"])).payload == {"n": 0}
    assert [json.loads(line)["job_id"] for line in matching.text.splitlines()] == ["job-1", "job-3"]
    first, second = audited(caplog)
    assert (first["action"], first["ids"], first["user"]) == ("export", [dead[0], dead[5]], "ada")
    assert (second["filter"], second["count"]) == ({"name": "odd"}, 2)


async def test_a_change_that_fails_is_in_the_audit_log_too(
    open_api: Opener, raw: Redis, queue_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    await raw.set(dead_key(queue_name), "no stream")
    async with open_api() as api:
        with caplog.at_level(logging.INFO, "chasqui.audit"):
            await api.post("queue/dead/delete", {"ids": ["1-1"]}, expect=503)
    [line] = audited(caplog)
    assert (line["action"], line["ids"], line["failed"]) == ("delete", ["1-1"], "CMQ-314")
    await raw.delete(dead_key(queue_name))


async def test_of_very_many_ids_the_audit_log_has_the_first(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "chasqui.audit"):
        await api.post("queue/dead/delete", {"ids": [f"1-{n}" for n in range(100)]})
    [line] = audited(caplog)
    assert len(line["ids"]) == 21
    assert line["ids"][-1] == "and 80 more"


async def test_who_may_only_look_changes_nothing(
    open_api: Opener, raw: Redis, queue_name: str, dead: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_api(AnyGuard(may_change=False)) as api:
        assert (await api.get("me"))["may_change"] is False
        assert len((await api.get("queue/dead"))["rows"]) == 6
        for path in CHANGES:
            answer = await api.post(path, {"ids": dead}, expect=403)
            assert answer["error"]["message"] == "You may look, but not change anything."
    assert await left(raw, queue_name) == dead
    assert audited(caplog) == []


@pytest.mark.parametrize(
    ("headers", "cookie"),
    [
        ({}, True),
        ({"x-chasqui-csrf": ""}, True),
        ({"x-chasqui-csrf": "x" * 43}, True),
        ({"x-chasqui-csrf": "TOKEN"}, False),
        ({"x-chasqui-csrf": "TOKEN", "sec-fetch-site": "cross-site"}, True),
        ({"x-chasqui-csrf": "TOKEN", "sec-fetch-site": "same-site"}, True),
    ],
    ids=str,
)
async def test_a_change_that_another_site_made_the_browser_send_is_refused(
    api: Api, raw: Redis, queue_name: str, dead: list[str], headers: dict[str, str], cookie: bool
) -> None:
    token = (await api.get("me"))["csrf"]
    sent = {name: value.replace("TOKEN", token) for name, value in headers.items()}
    if not cookie:
        api.client.cookies.clear()
    for path in CHANGES:
        response = await api.client.post(f"/api/{path}", params=api.place, headers=sent, json={"ids": dead})
        assert response.status_code == 403, path
    assert await left(raw, queue_name) == dead


async def test_every_change_is_in_the_list_of_these_tests() -> None:
    found = {route.path for route in app_for("redis://unused").routes if "POST" in getattr(route, "methods", ())}
    assert {path.replace("{action}", "fire") for path in found} == {f"/api/{path}" for path in CHANGES}


async def test_changes_are_made_by_post_only(api: Api) -> None:
    for path in CHANGES:
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            response = await api.client.request(method, f"/api/{path}", params=api.place)
            assert response.status_code == 405, (method, path)


async def test_names_cannot_forge_a_line_in_the_audit_log(
    redis_url: str, open_api: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_api() as api:
        api.place["queue"] = 't", "user": "root\u00a0<b>'.replace("\u00a0", " ") + api.place["queue"]
        with caplog.at_level(logging.INFO, "chasqui.audit"):
            await api.post("queue/pause")
            await api.post("queue/resume")
    assert [(one["user"], one["queue"]) for one in audited(caplog)] == [("ada", api.place["queue"])] * 2
    assert all("\n" not in record.getMessage() for record in caplog.records)
