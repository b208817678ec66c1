"""`job remove`, `job abort` and `queue drain|clean|delete`: what they delete, and that they ask first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from chasqui_engine import SyncQueue


def give_out(client: redis.Redis, queue: SyncQueue) -> None:
    """A worker of the group takes the first job that waits."""
    stream = f"{{chasqui:{queue.name}}}:stream"
    client.xgroup_create(stream, "default", "0")
    client.xreadgroup("default", "somebody", {stream: ">"}, count=1)


def test_a_job_is_shown_with_and_without_the_word(cli: Callable[..., Any], queue: SyncQueue) -> None:
    queue.add("mail", 1, job_id="own")
    for words in (("job", "own", "-q", queue.name), ("job", queue.name, "own"), ("job", "-q", queue.name, "own")):
        said = cli(*words, "--json")
        assert (said.code, said.json["state"]) == (0, "waiting")
    assert cli("job", "show", "own", "-q", queue.name, "--json").json["name"] == "mail"
    assert cli("job", "remove", "-q", "no-such-queue", "--help").code == 0


def test_jobs_are_removed_and_each_is_told(cli: Callable[..., Any], queue: SyncQueue) -> None:
    queue.add("n", 1, job_id="now")
    queue.add("n", 2, job_id="later", delay_ms=60_000)
    said = cli("job", "remove", "now", "later", "nobody", "-q", queue.name)
    assert said.code == 3
    assert said.out.splitlines() == [
        "now: removed from the waiting jobs",
        "later: removed from the delayed jobs",
        "nobody: not found",
    ]
    queue.add("n", 1, job_id="now")
    [facts] = cli("job", "remove", queue.name, "now", "--json").json
    assert facts == {"id": "now", "stream": True, "delayed": False, "dlq": False, "result": False, "active": False}


def test_a_running_job_is_not_removed(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    queue.add("n", 1, job_id="runs")
    give_out(client, queue)
    said = cli("job", "remove", "runs", "-q", queue.name)
    assert (said.code, said.out.strip()) == (1, "runs: running, left alone")
    assert queue.counts().active == 1


def test_jobs_are_aborted_and_each_is_told(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    queue.add("n", 1, job_id="runs")
    give_out(client, queue)
    queue.add("n", 2, job_id="later", delay_ms=60_000)
    said = cli("job", "abort", "later", "nobody", "-q", queue.name)
    assert said.code == 3
    assert said.out.splitlines() == ["later: removed, it had not begun", "nobody: not found, or it has ended"]
    said = cli("job", "abort", queue.name, "runs", "--timeout", "100ms", "--json")
    assert (said.code, said.json) == (1, [{"id": "runs", "state": "requested"}])
    assert client.zcard(f"{{chasqui:{queue.name}}}:aborts") == 1


def test_draining(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    queue.add("n", 1, delay_ms=60_000)
    give_out(client, queue)
    said = cli("queue", "drain", queue.name, "--keep-delayed", "--yes", "--json")
    assert said.json == {"queue": queue.name, "removed": 2, "active": 1}
    assert cli("queue", "drain", "-q", queue.name, "-y").out.strip() == "1 job deleted, 1 job running"
    # With nothing to delete there is nothing to ask.
    assert cli("queue", "drain", queue.name, stdin="").out.strip() == "0 jobs deleted, 1 job running"


def test_cleaning(cli: Callable[..., Any], queue: SyncQueue) -> None:
    ids = [queue.add("n", n).id for n in range(3)]
    assert cli("queue", "clean", queue.name, "--state", "waiting", "--older-than", "1h", "-y", "--json").json == {
        "queue": queue.name,
        "state": "waiting",
        "removed": [],
    }
    said = cli("queue", "clean", queue.name, "--state", "waiting", "--limit", "2", "-y", "--json")
    assert said.json["removed"] == ids[:2]
    assert cli("queue", "clean", queue.name, "-y").out.strip() == "0 jobs deleted"
    said = cli("queue", "clean", queue.name, "--state", "active", "-y")
    assert said.code == 2
    assert "completed, failed, delayed, waiting" in said.err


def test_deleting_a_queue(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    queue.add("n", 1)
    give_out(client, queue)
    said = cli("queue", "delete", queue.name, "--yes")
    assert said.code == 1
    assert "[CMQ-300]" in said.err
    assert "--force" in said.err
    assert queue.exists()
    assert cli("queue", "delete", queue.name, "--force", "--yes", "--json").json == {"queue": queue.name, "keys": 1}
    assert not queue.exists()
    assert cli("queue", "delete", queue.name, "--yes").code == 3


@pytest.mark.parametrize("words", [("drain",), ("clean", "--state", "waiting"), ("delete",)])
def test_nothing_is_deleted_without_a_yes(cli: Callable[..., Any], queue: SyncQueue, words: tuple[str, ...]) -> None:
    queue.add("n", 1)
    said = cli("queue", *words, "-q", queue.name, stdin="")
    assert said.code == 2
    assert "--yes" in said.err
    assert cli("queue", *words, "-q", queue.name, stdin="n\n").code == 1
    assert queue.counts().waiting == 1


def test_the_log_of_a_job(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    for line in ("a", "b\x1b[31m", "c"):
        client.xadd(f"{{chasqui:{queue.name}}}:log:own", {"line": line})
    said = cli("job", "logs", "own", "-q", queue.name)
    assert (said.code, said.out.splitlines()) == (0, ["a", "b·[31m", "c"])
    said = cli("job", "logs", queue.name, "own", "-n", "2", "--json")
    assert said.json == {"job": "own", "lines": ["b\x1b[31m", "c"], "count": 3}
    assert cli("job", "logs", "nobody", "-q", queue.name).code == 3
