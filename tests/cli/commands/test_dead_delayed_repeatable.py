"""`dlq`, `delayed` and `repeatable`."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine import Job, JobFailedError, MissedFiresPolicy, Queue, RepeatPattern, Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from chasqui_engine import SyncQueue


def bury(client: redis.Redis, queue_name: str, job_id: str, *, name: str, reason: str, age_ms: int = 0) -> bytes:
    envelope: bytes = msgpack.packb([job_id, msgpack.packb({"of": job_id}), 1_700_000_000_000, 3])
    seconds, micros = client.time()
    entry_id = f"{seconds * 1000 + micros // 1000 - age_ms}-*" if age_ms == 0 else f"{seconds * 1000 - age_ms}-0"
    fields: Any = {"d": envelope, "n": name, "source_id": "1-1", "reason": reason, "detail": f"ValueError: {job_id}"}
    client.xadd(f"{{chasqui:{queue_name}}}:dlq", fields, id=entry_id)
    return envelope


@pytest.fixture
def dead(client: redis.Redis, queue: SyncQueue) -> list[str]:
    """Four dead jobs: an old one, and three of now."""
    bury(client, queue.name, "old", name="mail", reason="retries_exhausted", age_ms=7_200_000)
    bury(client, queue.name, "b", name="mail", reason="unrecoverable")
    bury(client, queue.name, "c", name="sms", reason="unrecoverable")
    client.xadd(f"{{chasqui:{queue.name}}}:dlq", {"d": b"\xc1", "source_id": "1-1", "reason": "decode_failed"})
    return ["old", "b", "c"]


def ids(said: Any) -> list[str | None]:
    return [entry["job_id"] for entry in said.json]


def test_peeking(cli: Callable[..., Any], queue: SyncQueue, dead: list[str]) -> None:
    said = cli("dlq", "peek", queue.name, "--json")
    assert ids(said) == [None, "c", "b", "old"]
    last, *_, first = said.json
    assert first["payload"] == {"of": "old"}
    assert (first["detail"], first["code"], first["attempt"]) == ("ValueError: old", "CMQ-020", 4)
    assert last["unreadable"]
    assert ids(cli("dlq", "peek", "-q", queue.name, "--limit", "2", "--json")) == [None, "c"]
    said = cli("dlq", "peek", queue.name)
    assert '{"of": "b"}' in said.out
    assert "ValueError: c" in said.out
    assert "4 of 4 shown: 2 unrecoverable" in said.out


def _bury_by_handler(queue: SyncQueue, url: str) -> None:
    """A death as a worker writes it."""

    def dig(job: Job) -> None:
        raise ValueError("bedrock")

    async def work() -> None:
        worker = Worker(queue.name, dig, redis_url=url, max_attempts=1)
        running = asyncio.create_task(worker.run())
        async with Queue(queue.name, redis_url=url) as opened:
            job = await opened.add("dig", {"metres": 1}, job_id="deep")
            with pytest.raises(JobFailedError):
                await job.wait_for_result(timeout=20)
        await worker.close()
        await running

    asyncio.run(work())


def test_peeking_with_details_and_a_dead_job_show_the_traceback(
    cli: Callable[..., Any], client: redis.Redis, queue: SyncQueue, valkey_url: str
) -> None:
    bury(client, queue.name, "old", name="mail", reason="retries_exhausted")
    _bury_by_handler(queue, valkey_url)
    said = cli("dlq", "peek", queue.name, "--details")
    newest, older, tally = said.out.split("\n\n")
    assert newest.startswith("job         deep\nname        dig\n")
    assert "\nruns        1\n" in newest
    assert "\nreason      retries_exhausted (CMQ-020)\n" in newest
    assert "\ntraceback\n  Traceback (most recent call last):\n" in newest
    assert ", in dig\n" in newest
    assert newest.endswith("\n  ValueError: bedrock")
    assert "traceback" not in older
    assert tally == "2 of 2 shown\n"
    [newest, older] = cli("dlq", "peek", queue.name, "--details", "--json").json
    assert newest["traceback"].endswith("ValueError: bedrock")
    assert older["traceback"] is None
    said = cli("job", "deep", "-q", queue.name)
    assert "\ntraceback\n  Traceback (most recent call last):\n" in said.out
    assert cli("job", "deep", "-q", queue.name, "--json").json["traceback"] == newest["traceback"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (("--reason", "unrecoverable"), ["c", "b"]),
        (("--reason", "unrecoverable", "--name", "mail"), ["b"]),
        (("--name", "mail"), ["b", "old"]),
        (("--older-than", "1h"), ["old"]),
        (("--newer-than", "1h", "--name", "mail", "--name", "sms"), ["c", "b"]),
        (("--job-id", "c"), ["c"]),
        (("--name", "nobody"), []),
    ],
)
def test_filters(
    cli: Callable[..., Any], queue: SyncQueue, dead: list[str], filters: tuple[str, ...], found: list[str]
) -> None:
    assert ids(cli("dlq", "peek", queue.name, *filters, "--json")) == found


def test_replaying(cli: Callable[..., Any], queue: SyncQueue, dead: list[str]) -> None:
    said = cli("dlq", "replay", queue.name, "--name", "mail", "--yes", "--json")
    assert said.json == {"queue": queue.name, "selected": 2, "replayed": 2}
    assert (queue.get_job("b").state, queue.get_job("b").attempt) == ("waiting", 0)
    said = cli("dlq", "replay", queue.name, "--yes")
    assert "1 replayed, 1 left" in said.out
    assert cli("dlq", "replay", queue.name, "--name", "mail", "--yes").code == 3
    said = cli("dlq", "replay", queue.name, "--yes")
    assert (said.code, said.out.strip()) == (1, "0 replayed, 1 left: unreadable, or already gone")


def test_all_that_are_meant_are_replayed(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    for n in range(1100):
        bury(client, queue.name, f"job-{n}", name="mail" if n % 2 else "sms", reason="unrecoverable")
    said = cli("dlq", "replay", queue.name, "--name", "mail", "--limit", "520", "--yes", "--json")
    assert said.json == {"queue": queue.name, "selected": 520, "replayed": 520}
    assert cli("dlq", "replay", queue.name, "--yes", "--json").json["replayed"] == 580
    assert (queue.counts().dead, queue.counts().waiting) == (0, 1100)


def test_nothing_is_destroyed_without_a_yes(cli: Callable[..., Any], queue: SyncQueue, dead: list[str]) -> None:
    for words in (("dlq", "replay", queue.name), ("dlq", "delete", queue.name, "--all")):
        said = cli(*words, stdin="")
        assert said.code == 2
        assert "--yes" in said.err
    assert queue.counts().dead == 4


def test_deleting(cli: Callable[..., Any], queue: SyncQueue, dead: list[str]) -> None:
    assert cli("dlq", "delete", queue.name, "--older-than", "1h", "-y", "--json").json["deleted"] == 1
    assert ids(cli("dlq", "peek", queue.name, "--json")) == [None, "c", "b"]
    assert cli("dlq", "delete", queue.name, "--all", "--yes").out.strip() == "3 deleted"
    assert queue.counts().dead == 0
    assert cli("dlq", "delete", queue.name, "--all", "--yes").code == 3
    assert "no dead letters" in cli("dlq", "peek", queue.name).out


def test_exporting(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis, tmp_path: Path) -> None:
    envelopes = [bury(client, queue.name, f"job-{n}", name="mail", reason="unrecoverable") for n in range(1200)]
    path = tmp_path / "dead.jsonl"
    assert cli("dlq", "export", queue.name, "-o", str(path), "--json").json["exported"] == 1200
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [base64.b64decode(line["envelope"]) for line in lines] == envelopes
    assert lines[7]["payload"] == {"of": "job-7"}
    assert len(cli("dlq", "export", queue.name, "--job-id", "job-3").lines) == 1
    assert cli("dlq", "export", queue.name, "-o", "/no/such/folder/x").code == 2
    assert queue.counts().dead == 1200


def test_an_export_replaces_a_file_only_when_it_is_whole(
    cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis, tmp_path: Path
) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_text("of last week\n")
    path.chmod(0o640)
    (tmp_path / "link.jsonl").symlink_to(path)
    assert cli("dlq", "export", queue.name, "-o", str(path), "--url", "redis://127.0.0.1:1").code == 4
    assert cli("dlq", "export", queue.name, "-o", str(path)).code == 3
    assert path.read_text() == "of last week\n"
    bury(client, queue.name, "a", name="mail", reason="unrecoverable")
    said = cli("dlq", "export", queue.name, "-o", "/dev/full")
    assert (said.code, said.out) == (2, "")
    assert "/dev/full cannot be written: No space left on device" in said.err
    assert cli("dlq", "export", queue.name, "-o", str(tmp_path / "link.jsonl")).code == 0
    assert json.loads(path.read_text())["job_id"] == "a"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in tmp_path.iterdir()) == ["dead.jsonl", "link.jsonl"]


async def let_it_die(queue_name: str, url: str) -> None:
    async def fail(_job: Job) -> None:
        raise ValueError("no")

    worker = Worker(queue_name, fail, redis_url=url)
    async with Queue(queue_name, redis_url=url) as queue:
        await queue.add("n", 1, job_id="a", attempts=2, backoff=1)
        running = asyncio.create_task(worker.run())
        with pytest.raises(JobFailedError):
            await queue.wait_for_result("a", timeout=20)
        await worker.close()
        await running


def test_a_dead_job_has_as_many_runs_wherever_it_is_shown(
    cli: Callable[..., Any], queue_name: str, valkey_url: str
) -> None:
    asyncio.run(let_it_die(queue_name, valkey_url))
    [peeked] = cli("dlq", "peek", queue_name, "--json").json
    assert (peeked["attempt"], cli("job", "a", "-q", queue_name, "--json").json["attempt"]) == (2, 2)


def test_delayed_jobs(cli: Callable[..., Any], queue: SyncQueue) -> None:
    for n, job_id in enumerate(("a", "b", "c")):
        queue.add("mail", {"n": n}, job_id=job_id, delay_ms=60_000 * (n + 1))
    listed = cli("delayed", "list", queue.name, "--json").json
    assert [entry["id"] for entry in listed] == ["a", "b", "c"]
    assert listed[0]["payload"] == {"n": 0}
    text = cli("delayed", "list", queue.name, "--limit", "2").out
    assert "2 of 3 shown" in text
    assert "2 to 3 of 3 shown" in cli("delayed", "list", queue.name, "--start", "1").out
    assert "there are only 3 delayed jobs" in cli("delayed", "list", queue.name, "--start", "5").out
    assert "│ in " in text
    assert cli("delayed", "cancel", queue.name, "a").code == 0
    said = cli("delayed", "cancel", "a", "b", "-q", queue.name, "--json")
    assert (said.code, said.json) == (3, [{"id": "a", "done": False}, {"id": "b", "done": True}])
    assert cli("delayed", "reschedule", "c", "-q", queue.name, "--at", "2027-03-01T09:00+01:00").code == 0
    [entry] = cli("delayed", "list", queue.name, "--json").json
    assert entry["run_at"] == "2027-03-01T08:00:00.000Z"
    assert cli("delayed", "reschedule", "c", "-q", queue.name).code == 2
    assert cli("delayed", "run-now", "c", "-q", queue.name).code == 0
    assert queue.get_job("c").state == "waiting"
    assert cli("delayed", "run-now", "c", "-q", queue.name).code == 3
    assert "no delayed jobs" in cli("delayed", "list", queue.name).out


def test_repeatables(cli: Callable[..., Any], queue: SyncQueue) -> None:
    zone = ("--cron", "30 9 * * *", "--tz", "America/New_York")
    said = cli("repeatable", "add", "report", '{"a": 1}', "-q", queue.name, *zone, "--missed", "all:5", "--json")
    key = said.json["key"]
    assert key == "report::cron:30 9 * * *:America/New_York"
    first = datetime.fromisoformat(said.json["first_fire"])
    assert (first.hour, first.minute) == (9, 30)
    assert cli("repeatable", "add", "tick", "-q", queue.name, "--every", "5m", "--key", "t", "--limit", "3").code == 0
    listed = {entry["key"]: entry for entry in cli("repeatable", "list", queue.name, "--json").json}
    assert listed[key]["missed_fires"] == {"kind": "fire-all", "max_catchup": 5}
    assert listed["t"]["pattern"] == {"kind": "every", "interval_ms": 300_000}
    assert listed["t"]["limit"] == 3
    text = cli("repeatable", "list", queue.name).out
    assert "30 9 * * * (America/New_York)" in text
    assert "fire-all (5)" in text
    assert cli("repeatable", "remove", queue.name, "t").out.strip() == "removed"
    assert cli("repeatable", "remove", "t", "-q", queue.name).code == 3
    assert cli("repeatable", "remove", queue.name, key, "other").code == 2
    assert [meta.key for meta in queue.get_repeatable_jobs()] == [key]
    assert cli("repeatable", "remove", queue.name, key).code == 0
    queue.add("n", 1)
    assert "no repeatable jobs" in cli("repeatable", "list", queue.name).out


def test_previewing_a_stored_one(cli: Callable[..., Any], queue: SyncQueue) -> None:
    job = queue.upsert_repeatable_job("n", 1, repeat=RepeatPattern.cron("0 */2 * * *", tz="Europe/Berlin"), limit=4)
    said = cli("repeatable", "preview", job.id, "-q", queue.name, "--down-for", "5h", "--json").json
    assert len(said["fires"]) == 4
    hours = [datetime.fromisoformat(at) for at in said["fires"]]
    assert all(at.hour % 2 == 0 and at.utcoffset() for at in hours)
    assert {label: told["jobs"] for label, told in said["policies"].items()} == {
        "skip": 0,
        "fire-once": 1,
        "fire-all (100)": 3,
    }
    assert cli("repeatable", "preview", "none", "-q", queue.name).code == 3
    assert cli("repeatable", "preview", job.id, "-q", queue.name, "--cron", "* * * * *").code == 2
    every = RepeatPattern.every(60_000)
    own = queue.upsert_repeatable_job("n", 1, repeat=every, missed_fires=MissedFiresPolicy.fire_all(2))
    said = cli("repeatable", "preview", own.id, "-q", queue.name, "--down-for", "5h")
    assert "fire-all (2)    2 made up for" in said.out
    assert "its policy is fire-all (2)" in said.out


def test_previewing_a_pattern(cli: Callable[..., Any]) -> None:
    said = cli("repeatable", "preview", "--cron", "0 9 * * 1-5", "--tz", "America/New_York", "-n", "3")
    assert said.code == 0
    assert said.out.count("T09:00:00-0") >= 3
    assert "fire-once" in said.out
    every = cli("repeatable", "preview", "--every", "10m", "-n", "2", "--json").json
    first, second = map(datetime.fromisoformat, every["fires"])
    assert (second - first).total_seconds() == 600


def test_a_repeatable_is_paused_resumed_and_fired_by_hand(cli: Callable[..., Any], queue: SyncQueue) -> None:
    job = queue.upsert_repeatable_job("report", {"n": 1}, repeat=RepeatPattern.every(3_600_000))
    assert cli("repeatable", "pause", job.id, "-q", queue.name).out.strip() == "paused"
    assert cli("repeatable", "pause", job.id, "-q", queue.name, "--json").json["changed"] is False
    assert "paused" in cli("repeatable", "list", queue.name).out
    [listed] = cli("repeatable", "list", queue.name, "--json").json
    assert (listed["paused"], listed["next_fire"]) == (True, "paused")
    assert len(cli("repeatable", "preview", job.id, "-q", queue.name, "-n", "2", "--json").json["fires"]) == 2
    fired = cli("repeatable", "fire", job.id, "-q", queue.name, "--json").json
    assert [one.job_id for one in queue.list_waiting()] == [fired["id"]]
    assert "resumed; next fire at 2" in cli("repeatable", "resume", job.id, "-q", queue.name).out
    assert "not paused; next fire at 2" in cli("repeatable", "resume", job.id, "-q", queue.name).out
    for action in ("pause", "resume", "fire"):
        assert cli("repeatable", action, "none", "-q", queue.name).code == 3
