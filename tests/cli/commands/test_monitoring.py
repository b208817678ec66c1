"""`inspect`, `watch`, `events`, `doctor`, `pause` and `resume`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import redis

from chasqui_engine.admin.diagnosis import ServerReport
from chasqui_engine.cli.doctor_checks import FAIL, NOTE, OK, WARN, check_server
from tests.servers import KINDS, REDIS_6, REDIS_7, REDIS_8, VALKEY, ServerProcess
from tests.support.connections.sentinels import wait_until
from tests.support.consumers import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from chasqui_engine import SyncQueue


def test_one_queue(cli: Callable[..., Any], queue: SyncQueue) -> None:
    queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    queue.add("n", 1, delay_ms=60_000)
    [seen] = cli("inspect", queue.name, "--json").json
    assert seen["name"] == queue.name
    assert (seen["counts"]["waiting"], seen["counts"]["delayed"], seen["consumers"]) == (3, 1, [])
    said = cli("inspect", "-q", queue.name)
    assert said.code == 0
    assert queue.name[:20] in said.out
    assert "chasqui worker" in said.out
    assert "\x1b" not in said.out


def test_all_queues(cli: Callable[..., Any], queue: SyncQueue) -> None:
    queue.add("n", 1)
    assert queue.name in [seen["name"] for seen in cli("inspect", "--json").json]


def test_a_name_that_looks_like_markup(cli: Callable[..., Any]) -> None:
    assert cli("add", "n", "1", "-q", "[red]x[/nonsense]").code == 0
    assert "[red]x[/nonsense]" in cli("inspect", "[red]x[/nonsense]").out


def test_a_group(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    queue.add("n", 1)
    key = f"{{chasqui:{queue.name}}}:stream"
    client.xgroup_create(key, "mine", "0")
    client.xreadgroup("mine", "w1", {key: ">"})
    [seen] = cli("inspect", queue.name, "--group", "mine", "--json").json
    assert seen["counts"]["active"] == 1
    assert [(one["name"], one["active"]) for one in seen["consumers"]] == [("w1", 1)]


def test_watching_in_a_pipe_gives_lines(cli: Callable[..., Any], queue: SyncQueue) -> None:
    queue.add("n", 1)
    looks = cli("watch", queue.name, "--count", "3", "--interval-ms", "50").lines
    assert [look["queues"][0]["counts"]["waiting"] for look in looks] == [1, 1, 1]


def tell(client: redis.Redis, queue_name: str, *events: tuple[str, str]) -> None:
    for kind, job_id in events:
        client.xadd(f"{{chasqui:{queue_name}}}:events", {"e": kind, "id": job_id, "ts": 1_700_000_000_000, "n": "mail"})


def test_events_that_are_kept(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    tell(client, queue.name, ("active", "a"), ("completed", "a"), ("active", "b"), ("failed", "b"))
    lines = cli("events", queue.name).out.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("2023-11-14T22:13:20.000Z ")
    assert " active id=a name=mail" in lines[0]
    of = cli("events", "-q", queue.name, "--json", "--job-id", "b", "-e", "failed", "-e", "dlq").lines
    assert [(event["event"], event["job_id"]) for event in of] == [("failed", "b")]
    assert cli("events", queue.name, "--name", "other").out == ""
    assert len(cli("events", queue.name, "--limit", "2").out.splitlines()) == 2
    after = cli("events", queue.name, "--json", "--limit", "2").lines[1]["entry_id"]
    assert [event["job_id"] for event in cli("events", queue.name, "--from", after, "--json").lines] == ["b", "b"]
    for words in (("-e", "complete"), ("--from", "garbage"), ("--from", "9" * 30), ("--from", "garbage", "--follow")):
        said = cli("events", queue.name, *words)
        assert (said.code, said.out) == (2, "")
    assert "retry-scheduled" in cli("events", queue.name, "-e", "complete").err


@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("doctor",),
        ("events",),
        ("dlq", "peek"),
        ("dlq", "export"),
        ("dlq", "replay", "--yes"),
        ("delayed", "list"),
        ("repeatable", "list"),
    ],
)
def test_a_queue_that_is_not_there(cli: Callable[..., Any], queue_name: str, words: tuple[str, ...]) -> None:
    said = cli(*words, queue_name)
    assert (said.code, said.out) == (3, "")
    assert f"there is no queue {queue_name!r}" in said.err


def test_following(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    tell(client, queue.name, ("active", "old"))

    def later() -> None:
        for _ in range(200):
            listening = [c for c in client.client_list() if c["name"] == f"chasqui-events:{queue.name}"]
            if any("b" in c["flags"] for c in listening):
                break
            threading.Event().wait(0.02)
        tell(client, queue.name, ("active", "new"), ("completed", "new"))

    telling = threading.Thread(target=later)
    telling.start()
    heard = cli("events", queue.name, "--follow", "--limit", "2", "--json").lines
    telling.join()
    assert [(event["event"], event["job_id"]) for event in heard] == [("active", "new"), ("completed", "new")]


def test_pausing(cli: Callable[..., Any], queue: SyncQueue) -> None:
    said = cli("pause", queue.name)
    assert "paused" in said.out
    assert "check the spelling" in said.out
    assert queue.is_paused()
    assert cli("pause", "-q", queue.name, "--json").json == {
        "queue": queue.name,
        "paused": True,
        "changed": False,
        "known": True,
    }
    assert cli("resume", queue.name, "--json").json["changed"] is True
    assert not queue.is_paused()
    assert "was not paused" in cli("resume", queue.name).out


def levels(findings: list[dict[str, str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in findings:
        found.setdefault(one["what"], set()).add(one["level"])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_doctor_of_each_server(cli: Callable[..., Any], kind: str) -> None:
    with ServerProcess(kind, ("--appendonly", "yes", "--maxmemory", "200mb")) as server:
        said = cli("doctor", "--url", server.url, "--json")
        assert said.code == 0
        found = levels(said.json["findings"])
        assert (found["eviction"], found["persistence"], found["clock"], found["memory"]) == ({OK}, {OK}, {OK}, {OK})
        assert found["ACL"] == ({NOTE} if kind == REDIS_6 else {OK})  # which has no ACL DRYRUN
        assert (found["capability"] == {OK}) == (kind == REDIS_8)
        assert "no problems found" in cli("doctor", "--url", server.url).out


def test_a_doctor_says_what_is_wrong_and_what_to_do(cli: Callable[..., Any]) -> None:
    arguments = ("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with ServerProcess(VALKEY, arguments) as server, redis.Redis.from_url(server.url) as raw:
        assert cli("add", "n", "1", "-q", "lonely", "--url", server.url).code == 0
        assert cli("pause", "stopped", "--url", server.url).code == 0
        assert cli("add", "n", "1", "-q", "stopped", "--url", server.url).code == 0
        assert cli("add", "n", "1", "-q", "stuck", "--url", server.url).code == 0
        raw.xgroup_create("{chasqui:stuck}:stream", "default", "0")
        raw.xreadgroup("default", "w1", {"{chasqui:stuck}:stream": ">"})
        raw.zadd("{chasqui:late}:delayed", {b"\0\0\0\0x": 1})
        raw.zadd("{chasqui:unfired}:repeat", {"nightly": 1})
        said = cli("doctor", "--url", server.url, "--json")
        findings = said.json["findings"]
        assert said.code == 1
        assert not said.json["healthy"]
        found = levels(findings)
        assert (found["eviction"], found["persistence"]) == ({FAIL}, {WARN})
        assert WARN in found["queue lonely"]
        assert WARN in found["queue stopped"]
        assert WARN in found["queue late"]
        assert any("a repeatable job is overdue" in one["found"] for one in findings if one["what"] == "queue unfired")
        assert all(one["advice"] for one in findings if one["level"] in (WARN, FAIL))
        assert "chasqui resume stopped" in cli("doctor", "--url", server.url).out


def test_a_user_who_may_not(cli: Callable[..., Any]) -> None:
    with ServerProcess(REDIS_7) as server, redis.Redis.from_url(server.url) as raw:
        rules = ("on", ">pw", "~*", "+@all", "-zadd", "-xclaim")
        raw.execute_command("ACL", "SETUSER", "weak", *rules)
        url = server.url.replace("redis://", "redis://weak:pw@")
        said = cli("doctor", "--url", url, "--json")
        [acl] = [one for one in said.json["findings"] if one["what"] == "ACL"]
        assert (said.code, acl["level"]) == (1, FAIL)
        assert "XCLAIM, ZADD" in acl["found"]
        assert "pw" not in said.out
        raw.execute_command("ACL", "SETUSER", "weak", "-acl", "-config", "+zadd", "+xclaim")
        said = cli("doctor", "--url", url, "--json")
        [acl] = [one for one in said.json["findings"] if one["what"] == "ACL"]
        assert (said.code, acl["level"]) == (0, NOTE)


def test_a_doctor_asks_that_replicas_are_needed_for_a_write(cli: Callable[..., Any]) -> None:
    def replicas() -> dict[str, str]:
        said = cli("doctor", "--url", master.url, "--json")
        [found] = [one for one in said.json["findings"] if one["what"] == "replicas"]
        return dict(found)

    with ServerProcess(VALKEY) as master, redis.Redis.from_url(master.url) as raw:
        raw.config_set("repl-diskless-sync-delay", 0)
        with ServerProcess(VALKEY, ("--replicaof", "127.0.0.1", str(master.port))):
            wait_until(lambda: raw.info("replication")["connected_slaves"] == 1, "the replica")
            assert replicas()["level"] == WARN
            assert "min-replicas-to-write 1" in replicas()["advice"]
            raw.config_set("min-replicas-to-write", 1)
            assert replicas()["level"] == OK


def test_a_doctor_finds_streams_that_take_no_more_and_clocks_that_were_set_back(cli: Callable[..., Any]) -> None:
    largest = f"{2**64 - 1}-{2**64 - 1}"
    with ServerProcess(VALKEY) as server, redis.Redis.from_url(server.url) as raw:
        raw.xadd("{chasqui:closed}:stream", {"d": "x"}, id=largest)
        raw.xadd("{chasqui:full}:stream", {"d": "x"})
        raw.xadd("{chasqui:full}:dlq", {"d": "x"}, id=largest)
        raw.xadd("{chasqui:early}:stream", {"d": "x"}, id=f"{(raw.time()[0] + 3600) * 1000}-0")
        said = cli("doctor", "--url", server.url, "--json")
    assert said.code == 1
    found = {(one["what"], one["level"]): one for one in said.json["findings"]}
    assert "DEL {chasqui:closed}:stream" in found["queue closed", FAIL]["advice"]
    assert "{chasqui:full}:dlq has used its last id" in found["queue full", FAIL]["found"]
    ahead = [one["found"] for one in said.json["findings"] if one["what"] == "queue early" and one["level"] == WARN]
    assert any("ahead of the server's clock" in one for one in ahead)


def test_a_clock_that_is_wrong() -> None:
    facts = ServerReport(
        server="redis",
        version="7.0.0",
        eviction="noeviction",
        has_ackdel=False,
        has_script_flags=True,
        info={},
        settings={},
        clock_ms=1_000_000,
        user=None,
        forbidden=None,
    )

    def level(local_ms: int) -> str:
        return next(one.level for one in check_server(facts, local_ms) if one.what == "clock")

    assert [level(1_000_000 + skew) for skew in (0, 900, -5_000, 5_000, -60_000)] == [OK, OK, WARN, WARN, FAIL]


def test_workers_are_listed_while_they_live_and_after_they_died(
    cli: Callable[..., Any], client: redis.Redis, queue: SyncQueue, valkey_url: str
) -> None:
    assert cli("workers", queue.name).code == 3, "there is no such queue"
    queue.add("n", 1)
    assert cli("workers", queue.name, "--json").json == []
    assert "no workers. Next: chasqui worker" in cli("workers", queue.name).out
    with WorkerProcess(valkey_url, queue.name, "sleep:60") as process:
        wait_until(lambda: [one["running"] for one in cli("workers", queue.name, "--json").json] == [1], "it runs")
        [one] = cli("workers", "-q", queue.name, "--json").json
        assert (one["queue"], one["alive"], one["pid"]) == (queue.name, True, process.pid)
        said = cli("workers", queue.name)
        assert one["name"] in said.out
        assert " alive " in said.out
        process.kill()
    [(name, entry)] = client.hgetall(f"{{chasqui:{queue.name}}}:workers").items()
    seen_ms, _, facts = entry.partition(b" ")
    client.hset(f"{{chasqui:{queue.name}}}:workers", name, b"%d %s" % (int(seen_ms) - 60_000, facts))
    assert "died: last seen 1m" in cli("workers", queue.name).out
    assert "died: last seen 1m" in cli("inspect", queue.name).out
    [seen] = cli("inspect", queue.name, "--json").json
    assert (seen["workers"], seen["running"], seen["buffered"]) == (0, 0, 1)
    found = [one["found"] for one in cli("doctor", queue.name, "--json").json["findings"]]
    assert any(text.startswith(f"{one['name']} holds 1 jobs and was last seen 1m") for text in found)
