"""`add`, `result`, `job` and `bulk`."""

from __future__ import annotations

import json
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine.cli.bulk.sources import _packable
from chasqui_engine.codec.headers import decode_headers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    from chasqui_engine import SyncQueue


def stream(queue_name: str) -> str:
    return f"{{chasqui:{queue_name}}}:stream"


def test_a_job_is_added_and_its_id_said(cli: Callable[..., Any], queue: SyncQueue) -> None:
    said = cli("add", "mail", '{"to": "ada"}', "-q", queue.name)
    assert said.code == 0
    info = queue.get_job(said.out.strip())
    assert (info.state, info.name, info.payload) == ("waiting", "mail", {"to": "ada"})


@pytest.mark.parametrize("before", [True, False])
def test_json_may_stand_anywhere(cli: Callable[..., Any], queue: SyncQueue, before: bool) -> None:
    words = ["add", "mail", "-q", queue.name, "--id", "own"]
    said = cli("--json", *words) if before else cli(*words, "--json")
    assert said.json == {"id": "own", "queue": queue.name, "name": "mail", "added": True}
    assert queue.get_job("own").payload is None


def test_delays_and_retries(cli: Callable[..., Any], queue: SyncQueue) -> None:
    job_id = cli("add", "n", "1", "-q", queue.name, "--delay", "2h", "--attempts", "7", "--backoff", "3s").out.strip()
    info = queue.get_job(job_id)
    assert info.state == "delayed"
    assert info.run_at_ms is not None
    assert info.created_at_ms is not None
    assert 7_190_000 < info.run_at_ms - info.created_at_ms < 7_210_000
    at = cli("add", "n", "1", "-q", queue.name, "--at", "+1d").out.strip()
    assert queue.get_job(at).state == "delayed"


@pytest.mark.parametrize("later", [(), ("--delay", "1h")])
def test_adding_a_taken_id_says_that_nothing_was_added(
    cli: Callable[..., Any], queue: SyncQueue, later: tuple[str, ...]
) -> None:
    words = ("add", "mail", "1", "-q", queue.name, "--id", "own", *later)
    assert cli(*words).err == ""
    said = cli(*words)
    assert (said.code, said.out, said.err) == (0, "own\n", "job own exists already; nothing was added\n")
    assert cli(*words, "--json").json["added"] is False


def backoff_of(client: redis.Redis, queue_name: str) -> list[Any]:
    [(_, fields)] = client.xrange(stream(queue_name))  # type: ignore[misc]
    return list(msgpack.unpackb(fields[b"d"])[4][1])


@pytest.mark.parametrize(
    ("words", "backoff"),
    [
        (("--backoff", "10s"), ["fixed", 10_000, None, None, None]),
        (("--backoff", "10m"), ["fixed", 600_000, 600_000, None, None]),
        (("--backoff", "10s", "--max-backoff", "10m"), ["exponential", 10_000, 600_000, 2.0, None]),
    ],
)
def test_a_backoff_is_the_jobs_own_with_its_maximum(
    cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis, words: tuple[str, ...], backoff: list[Any]
) -> None:
    assert cli("add", "n", "1", "-q", queue.name, *words).code == 0
    assert backoff_of(client, queue.name) == backoff


def test_waiting_shows_the_id_first_and_at_a_timeout_how_to_go_on(cli: Callable[..., Any], queue: SyncQueue) -> None:
    said = cli("add", "n", "1", "-q", queue.name, "--id", "own", "--wait", "--timeout", "200ms")
    assert (said.code, said.out) == (124, "")
    first, last = said.err.splitlines()
    assert first == "job own: waiting 200ms for its result"
    assert last.endswith(f"Next: chasqui result own -q {queue.name} --wait goes on waiting")


def test_data_from_a_file_from_stdin_and_as_text(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text("[1, 2]")
    ids = [
        cli("add", "n", f"@{tmp_path}/data.json", "-q", queue.name).out.strip(),
        cli("add", "n", "-", "-q", queue.name, stdin='{"a": 1}').out.strip(),
        cli("add", "n", "plain words", "--text", "-q", queue.name).out.strip(),
    ]
    assert [queue.get_job(job_id).payload for job_id in ids] == [[1, 2], {"a": 1}, "plain words"]


# The last one imports Airflow, which on a busy machine alone takes most of a minute.
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("add", "n", "{bad"), 2, "CMQ-004"),
        (("add", "n", "@/no/such/file"), 2, "/no/such/file"),
        (("add", "n", "1", "--delay", "soon"), 2, "soon"),
        (("add", "n", "1", "--delay", "1s", "--at", "+1s"), 2, "--at"),
        (("add", "n", "1", "--at", "yesterday"), 2, "yesterday"),
        (("add", "n", "1", "--max-backoff", "5m"), 2, "--backoff"),
        (("add", "n", "1", "--backoff", "5m", "--max-backoff", "1m"), 2, "shorter"),
        (("add",), 2, "NAME"),
        (("add", "n", "1", "-q", "{bad}"), 2, "CMQ-004"),
        (("nothing",), 2, "nothing"),
        (("add", "n", "1", "--url", "http://x"), 2, "CMQ-004"),
        (("inspect", "--url", "redis://127.0.0.1:1"), 4, "CMQ-001"),
        (("pause",), 2, "-q NAME"),
        (("pause", "a", "-q", "b"), 2, "two queues"),
        (("delayed", "cancel", "only-one-word"), 2, "ID"),
        (("bulk", "/no/such/file"), 2, "/no/such/file"),
        (("bulk", "x.txt", "--format", "xml"), 2, "xml"),
        (("repeatable", "add", "n", "--cron", "99 * * * *"), 2, "99"),
        (("repeatable", "add", "n"), 2, "--cron"),
        (("repeatable", "preview", "--every", "1h", "--tz", "UTC"), 2, "--tz"),
        (("dlq", "delete", "q"), 2, "--all"),
        (("add", "n", "1", "--conn-id", "x"), 2, "CMQ-004"),
    ],
)
def test_errors_are_one_line_with_a_code_and_a_next_step(
    cli: Callable[..., Any], words: tuple[str, ...], code: int, told: str
) -> None:
    said = cli(*words)
    assert (said.code, said.out) == (code, "")
    [line] = said.err.splitlines()
    assert line.startswith("error: [CMQ-")
    assert told in line
    assert ". Next: " in line


@pytest.mark.parametrize("form", ["uri", "json"])
def test_an_airflow_connection_in_place_of_a_url(
    cli: Callable[..., Any], queue: SyncQueue, valkey_url: str, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    as_json = json.dumps({"conn_type": "chasqui", "extra": {"url": valkey_url}})
    stored = as_json if form == "json" else valkey_url.replace("redis://", "chasqui://")
    monkeypatch.setenv("AIRFLOW_CONN_MAIN", stored)
    monkeypatch.setenv("CHASQUI_REDIS_URL", "redis://127.0.0.1:1")
    assert cli("add", "hello", "1", "-q", queue.name, "--conn-id", "main").code == 0
    assert queue.counts().waiting == 1


def test_errors_in_json(cli: Callable[..., Any]) -> None:
    said = cli("inspect", "--url", "redis://127.0.0.1:1", "--json")
    error = json.loads(said.err)["error"]
    assert (said.code, error["code"]) == (4, "CMQ-001")
    assert error["next"]


def test_debug_shows_where(cli: Callable[..., Any]) -> None:
    with pytest.raises(Exception, match="cannot reach"):
        cli("inspect", "--url", "redis://127.0.0.1:1", "--debug")


def test_passwords_are_never_said(cli: Callable[..., Any]) -> None:
    said = cli("inspect", "--url", "redis://user:hunter2@127.0.0.1:1/0")
    assert said.code == 4
    assert "hunter2" not in said.err


def test_results(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    job = queue.add("n", 1)
    said = cli("result", job.id, "-q", queue.name)
    assert (said.code, said.out) == (3, "")
    assert "CMQ-312" in said.err
    assert "waiting" in said.err
    client.set(f"{{chasqui:{queue.name}}}:result:{job.id}", b"\x92\x01\xa1x")
    assert cli("result", queue.name, job.id).out.strip().replace("\n", "").replace(" ", "") == '[1,"x"]'
    assert cli("result", job.id, "-q", queue.name, "--wait", "--json").json == {"id": job.id, "result": [1, "x"]}
    said = cli("result", "nobody", "-q", queue.name, "--wait", "--timeout", "200ms")
    assert said.code == 124
    assert "is unknown" in said.err
    late = queue.add("n", 1)
    said = cli("result", late.id, "-q", queue.name, "--wait", "--timeout", "200ms")
    assert said.code == 124
    assert "--timeout" in said.err


def test_a_job_is_described(cli: Callable[..., Any], queue: SyncQueue) -> None:
    job = queue.add("mail", {"to": "ada\x1b[31m"})
    said = cli("job", job.id, "-q", queue.name)
    assert said.code == 0
    assert "waiting" in said.out
    assert "\x1b" not in said.out
    assert cli("job", job.id, "-q", queue.name, "--json").json["payload"] == {"to": "ada\x1b[31m"}
    assert cli("job", "nobody", "-q", queue.name).code == 3


def write_lines(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_bulk_of_json_lines_adds_only_what_is_missing(
    cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis, tmp_path: Path
) -> None:
    rows = [{"n": n} for n in range(2500)]
    path = write_lines(tmp_path / "rows.jsonl", rows[:1500])
    said = cli("bulk", path, "-q", queue.name, "--name", "mail", "--json")
    assert (said.code, said.json["added"], said.json["already_there"]) == (0, 1500, 0)
    write_lines(tmp_path / "rows.jsonl", rows)
    said = cli("bulk", path, "-q", queue.name, "--name", "mail", "--json")
    assert (said.json["rows"], said.json["added"], said.json["already_there"]) == (2500, 1000, 1500)
    assert cli("bulk", path, "-q", queue.name, "--name", "mail", "--json").json["added"] == 0
    assert client.xlen(stream(queue.name)) == 2500
    assert cli("bulk", path, "-q", queue.name, "--name", "mail", "--run", "again", "--json").json["added"] == 2500
    assert cli("bulk", path, "-q", queue.name, "--no-resume", "--json").json["added"] == 2500
    assert "2,500 existed already" in cli("bulk", path, "-q", queue.name, "--name", "mail").out


def test_rows_that_are_alike_are_jobs_each(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rows.jsonl", [1, 1, 1])
    assert cli("bulk", path, "-q", queue.name, "--json").json["added"] == 3


def test_bulk_of_csv_with_ids_and_names_of_its_own(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('\ufeffid,kind,text\n1,mail,"a, b"\n2,sms,"zwei\nZeilen"\n', encoding="utf-8")
    said = cli("bulk", str(path), "-q", queue.name, "--id-field", "id", "--name-field", "kind", "--json")
    assert said.json["added"] == 2
    info = queue.get_job("2")
    assert (info.name, info.payload) == ("sms", {"id": "2", "kind": "sms", "text": "zwei\nZeilen"})


def test_bulk_from_stdin_and_for_later(cli: Callable[..., Any], queue: SyncQueue) -> None:
    said = cli("bulk", "-", "-q", queue.name, "--delay", "1h", "--json", stdin='{"a": 1}\n\n{"a": 2}\n')
    assert said.json["added"] == 2
    assert queue.counts().delayed == 2
    assert cli("bulk", "-", "-q", queue.name, "--delay", "1h", "--json", stdin='{"a": 1}\n\n').json["added"] == 0


def test_a_bad_row_stops_it_and_what_came_before_is_in(
    cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\nnot json\n{"a": 3}\n')
    said = cli("bulk", str(path), "-q", queue.name, "--json")
    assert (said.code, said.json["added"], said.json["bad"], said.json["complete"]) == (1, 1, 1, False)
    assert "line 2" in json.loads(said.err)["error"]["message"]
    said = cli("bulk", str(path), "-q", queue.name, "--skip-bad", "--json")
    assert (said.code, said.json["added"], said.json["bad"], said.json["complete"]) == (0, 1, 1, True)
    assert queue.counts().waiting == 2
    path.write_text('{"a": 1}\n{"b": 2}\n')
    said = cli("bulk", str(path), "-q", queue.name, "--id-field", "a")
    assert f"line 2 of {path} has no field 'a'" in said.err


def test_values_of_tables_become_payloads() -> None:
    row = {"day": date(2027, 1, 2), "price": Decimal("1.50"), "took": timedelta(seconds=3), "tags": [time(9)], "n": 1}
    expected = {"day": "2027-01-02", "price": "1.50", "took": 3.0, "tags": ["09:00:00"], "n": 1}
    assert _packable(row) == expected


def test_bulk_of_parquet(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        path.write_bytes(b"PAR1")
        said = cli("bulk", str(path), "-q", queue.name)
        assert said.code == 1
        assert "pyarrow" in said.err
        return
    parquet.write_table(pa.table({"n": list(range(1200))}), path)
    assert cli("bulk", str(path), "-q", queue.name, "--json").json["added"] == 1200
    assert cli("bulk", str(path), "-q", queue.name, "--json").json["added"] == 0


def test_headers_are_pairs(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    cli("add", "n", "1", "-q", queue.name, "--header", "tenant=42", "--header", "a=b=c", "--header", "empty=")
    [(_, fields)] = client.xrange(stream(queue.name))  # type: ignore[misc]
    assert decode_headers(fields[b"h"]).own == {"tenant": "42", "a": "b=c", "empty": ""}


@pytest.mark.parametrize("word", ["tenant", "=42", ""])
def test_what_is_no_header_is_said(cli: Callable[..., Any], queue: SyncQueue, word: str) -> None:
    said = cli("add", "n", "1", "-q", queue.name, "--header", word)
    assert (said.code, "--header NAME=VALUE" in said.err) == (2, True)
    assert not queue.exists()
