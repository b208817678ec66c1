"""`bulk` and rows that are none: each costs itself and no other, and nobody is told that all were read."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis

from chasqui_engine import SyncQueue
from tests.servers import VALKEY, ServerProcess
from tests.support.processes import COMMAND, Piped, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


def queue_jobs(client: redis.Redis, queue: SyncQueue) -> list[Any]:
    from chasqui_engine.codec.envelope import decode_job

    return [decode_job(fields[b"d"]) for _, fields in client.xrange(f"{{chasqui:{queue.name}}}:stream")]


def test_a_byte_that_is_no_utf_8_costs_its_row_only(cli: Callable[..., Any], queue: SyncQueue, csv: Path) -> None:
    rows = [b"n,text", *(b"%d,ok" % n for n in range(3000))]
    rows[1500] = b"1499,caf\xe9"
    csv.write_bytes(b"\n".join(rows) + b"\n")
    said = cli("bulk", str(csv), "-q", queue.name, "--json")
    assert (said.code, said.json["complete"], said.json["bad"]) == (1, False, 1)
    assert f"row 1500 of {csv} (line 1501) is not UTF-8" in said.err
    said = cli("bulk", str(csv), "-q", queue.name, "--skip-bad", "--json")
    assert (said.code, said.json["rows"], said.json["bad"], said.json["complete"]) == (0, 2999, 1, True)
    assert queue.counts().waiting == 2999


def test_a_long_field_is_read(cli: Callable[..., Any], queue: SyncQueue, csv: Path) -> None:
    csv.write_text(f"n,text\n1,{'x' * 200_000}\n2,short\n")
    assert cli("bulk", str(csv), "-q", queue.name, "--json").json["added"] == 2


@pytest.mark.parametrize("skip", [(), ("--skip-bad",)])
def test_a_quote_that_is_never_closed_ends_the_reading(
    cli: Callable[..., Any], queue: SyncQueue, csv: Path, skip: tuple[str, ...]
) -> None:
    csv.write_text('n,text\n1,a\n2,"open\n3,c\n4,d\n')
    said = cli("bulk", str(csv), "-q", queue.name, "--json", *skip)
    assert (said.code, said.json["added"], said.json["complete"]) == (1, 1, False)
    assert "opened in line 3" in said.err
    assert "--skip-bad" not in said.err


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"n,a,n\n1,2,3\n", "names 'n' twice"),
        (b"n,caf\xe9\n1,2\n", "the header of"),
    ],
)
def test_a_header_that_does_not_do(
    cli: Callable[..., Any], queue: SyncQueue, csv: Path, content: bytes, told: str
) -> None:
    csv.write_bytes(content)
    said = cli("bulk", str(csv), "-q", queue.name, "--skip-bad")
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert queue.counts().waiting == 0


def test_other_line_ends_marks_and_empty_lines(
    cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis, csv: Path
) -> None:
    csv.write_bytes(b'\xef\xbb\xbfn,text\r\n1,a\r\n\r\n2,"b\r\nc"\r\n3,last')
    assert cli("bulk", str(csv), "-q", queue.name, "--json").json["added"] == 3
    assert [job.payload for job in queue_jobs(client, queue)] == [
        {"n": "1", "text": "a"},
        {"n": "2", "text": "b\r\nc"},
        {"n": "3", "text": "last"},
    ]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ('{"n": 123456789012345678901234567890}', "MessagePack"),
        ('{"n": "\\ud800"}', "MessagePack"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ('{"n": 1', "not JSON"),
        (json.dumps({"name": "x" * 5000}), "name must be at most"),
    ],
)
def test_what_no_job_can_hold_is_a_bad_row(
    cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path, row: str, told: str
) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"n": n, "name": "x"}) for n in range(1500)]
    lines[1200] = row
    path.write_text("\n".join(lines))
    options = ("--name-field", "name") if "name" in row else ()
    said = cli("bulk", str(path), "-q", queue.name, *options)
    assert said.code == 1
    assert f"error: [CMQ-004] line 1201 of {path}" in said.err
    assert told in said.err
    assert queue.counts().waiting == 1200
    said = cli("bulk", str(path), "-q", queue.name, "--skip-bad", "--json", *options)
    assert (said.code, said.json["added"], said.json["bad"]) == (0, 299, 1)


def test_an_array_is_not_taken_for_one_job(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text('[{"n": 1}, {"n": 2}]\n')
    said = cli("bulk", str(path), "-q", queue.name, "--skip-bad")
    assert said.code == 1
    assert "jq -c" in said.err
    path.write_text('[\n{"n": 1},\n{"n": 2}\n]\n')
    assert "jq -c" in cli("bulk", str(path), "-q", queue.name).err
    assert queue.counts().waiting == 0
    path.write_text('[{"n": 1}]\n[{"n": 2}]\n')
    assert cli("bulk", str(path), "-q", queue.name, "--json").json["added"] == 2


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"x" * 500 + b"PAR1"])
def test_parquet_that_is_none(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    path.write_bytes(content)
    said = cli("bulk", str(path), "-q", queue.name, "--skip-bad")
    assert (said.code, said.out) == (2, "")
    [line] = said.err.splitlines()
    assert "cannot be read as Parquet" in line


def test_parquet_that_breaks_off(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    table = pa.table({"n": list(range(4000))})
    parquet.write_table(table, path, row_group_size=2000, compression="none", use_dictionary=False)
    data = bytearray(path.read_bytes())
    start = parquet.ParquetFile(path).metadata.row_group(1).column(0).data_page_offset
    data[start : start + 60] = b"\xff" * 60
    path.write_bytes(data)
    said = cli("bulk", str(path), "-q", queue.name, "--skip-bad", "--json")
    assert (said.code, said.json["complete"], said.json["rows"]) == (1, False, 2000)
    assert "after row 2000" in said.err
    assert queue.counts().waiting == 2000


def test_parquet_from_a_pipe(valkey_url: str, queue: SyncQueue, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"n": list(range(1500))}), path)
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as cat:
        done = subprocess.run(
            [*COMMAND, "bulk", "-", "--format", "parquet", "-q", queue.name, "--json"],
            stdin=cat.stdout,
            env=environment(valkey_url),
            capture_output=True,
            timeout=60,
            check=True,
        )
    assert json.loads(done.stdout)["added"] == 1500


def test_a_slow_pipe_holds_up_nothing(valkey_url: str, queue: SyncQueue) -> None:
    with Piped(valkey_url, "bulk", "-", "-q", queue.name, "--json") as bulk:
        bulk.write(b'{"n": 1}\n{"n": 2}\n')
        wait_for(lambda: queue.counts().waiting == 2, "the rows so far")
        began = time.monotonic()
        bulk.interrupt()
        assert bulk.wait() == 130
        assert time.monotonic() - began < 5
        assert json.loads(bulk.out)["complete"] is False
        assert "run the same command again" in bulk.err
        assert "Traceback" not in bulk.err
        assert "Fatal" not in bulk.err


def test_a_fast_pipe_is_read_whole(valkey_url: str, queue: SyncQueue) -> None:
    with Piped(valkey_url, "bulk", "-", "-q", queue.name, "--json") as bulk:
        bulk.write(b"".join(b'{"n": %d}\n' % n for n in range(20_000)))
        bulk.end()
        assert bulk.wait() == 0
        assert json.loads(bulk.out)["added"] == 20_000


def test_a_full_server(cli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with path.open("w") as rows:
        for n in range(20_000):
            rows.write(json.dumps({"n": n, "text": "x" * 500}) + "\n")
    with ServerProcess(VALKEY, ("--maxmemory", "6mb", "--maxmemory-policy", "noeviction")) as server:
        done = subprocess.run(
            [*COMMAND, "bulk", str(path), "-q", "full"],
            env=environment(server.url),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 4
        [line] = done.stderr.splitlines()
        assert "maxmemory" in line
        assert "run the same command again: it adds what is missing" in line
        with SyncQueue("full", redis_url=server.url) as queue:
            there = queue.counts().waiting
            assert there > 0
            assert f"{there:,} jobs added" in done.stdout
            with redis.Redis.from_url(server.url) as raw:
                raw.config_set("maxmemory", "200mb")
            said = cli("bulk", str(path), "-q", "full", "--url", server.url, "--json")
            assert (said.code, said.json["added"], said.json["already_there"]) == (0, 20_000 - there, there)


def test_a_name_is_looked_at_before_the_first_row(cli: Callable[..., Any], queue: SyncQueue, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("1\n")
    assert cli("bulk", str(path), "-q", queue.name, "--name", "x" * 3000).code == 2
