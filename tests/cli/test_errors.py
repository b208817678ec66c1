"""Whatever goes wrong is one line with a code and the next step, also what nobody foresaw; and JSON stays JSON."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack
import pytest

from chasqui_engine.cli.input import params
from chasqui_engine.payload_json import json_text
from chasqui_engine.values.durations import iso
from tests.support.processes import COMMAND, ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from chasqui_engine import SyncQueue

DEEP = "[" * 5000 + "]" * 5000


@pytest.mark.parametrize(
    ("given", "told", "step"),
    [
        (("add", "n", "1", "--at", "+99999999999999w"), "longer than 1000 years", "shorter"),
        (("add", "n", "1", "--delay", "999999999999w"), "longer than 1000 years", "shorter"),
        (("add", "n", "1", "--at", "9999-12-31T23:59:59-12:00"), "invalid time", "2027"),
        (("add", "n", "1", "--delay", "1000w"), "a delay is at most 30d 0h", "earlier"),
        (("add", "n", "1", "--at", "2999-01-01"), "a delay is at most 30d 0h", "earlier"),
        (("add", "n", DEEP), "nested too deeply", "flatter"),
        (("add", "n", "1", "-q", "aa", "-q", "bb"), "two queues are named", "name one"),
        (("worker", "tasks:handle", "-q", "aa", "-q", "bb"), "two queues are named", "name one"),
        (("worker", "t:h", "--metrics-port", "65535", "--processes", "2"), "65535", "a lower --metrics-port"),
        (("result", "id", "more", "-q", "q"), "one too many", "ID -q NAME"),
        (("result", "q", "id", "more"), "one too many", "ID -q NAME"),
        (("repeatable", "add", "rep", "{bad", "--every", "1m"), "not JSON", "quote it for the shell"),
        (("dashboard", "--host", "nosuchhost.invalid", "--token", "t" * 20), "nosuchhost.invalid", "--host"),
    ],
)
def test_wrong_usage_is_told_with_what_to_do(
    cli: Callable[..., Any], given: tuple[str, ...], told: str, step: str
) -> None:
    said = cli(*given)
    assert (said.code, said.out) == (2, "")
    [line] = said.err.splitlines()
    assert told in line
    assert step in line.partition(". Next: ")[2]
    assert "--text" not in line


def test_data_that_is_not_utf_8(cli: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "bin.dat").write_bytes(b"\xff\xfe\x00")
    said = cli("add", "n", f"@{tmp_path}/bin.dat")
    assert said.code == 2
    assert "is not UTF-8" in said.err


@pytest.mark.parametrize("stored", ["{bad", '{"extra": "[1]"}', '{"extra": "{bad"}'])
def test_a_connection_that_is_no_json(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, stored: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_FOO", stored)
    said = cli("inspect", "--conn-id", "foo")
    assert said.code == 2
    assert "connection 'foo'" in said.err


def test_what_nobody_foresaw_is_a_line(cli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_text: str) -> int:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("chasqui_engine.cli.commands.add.parse_duration_ms", broken)
    said = cli("add", "n", "1", "--delay", "1s")
    assert said.code == 1
    assert said.err == "error: [CMQ-000] ZeroDivisionError: by nothing. Next: --debug shows the traceback\n"
    assert json.loads(cli("add", "n", "1", "--delay", "1s", "--json").err)["error"]["code"] == "CMQ-000"
    with pytest.raises(ZeroDivisionError):
        cli("add", "n", "1", "--delay", "1s", "--debug")


def test_without_a_server_it_says_how_to_do_without(cli: Callable[..., Any]) -> None:
    for command in ("doctor", "inspect"):
        said = cli(command, "--url", "redis://127.0.0.1:1")
        assert said.code == 4
        assert "nothing listens at 127.0.0.1:1" in said.err
        assert "--url embedded:///" in said.err
        assert "chasqui doctor" not in said.err


def run(url: str, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *args],
        env=environment(url),
        text=True,
        timeout=60,
        check=False,
        **{"stderr": subprocess.PIPE, **options},
    )


@pytest.mark.parametrize("given", [("inspect",), ("inspect", "--json"), ("doctor",), ("--help",)])
def test_a_full_disk(valkey_url: str, given: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run(valkey_url, *given, stdout=full)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "No space left on device" in line


def test_a_reader_that_goes_away(valkey_url: str, queue: SyncQueue) -> None:
    queue.add("n", 1)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        for words_ in (("inspect",), ("inspect", "--json")):
            done = run(valkey_url, *words_, stdout=nobody)
            assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": float("nan"), "b": [float("inf"), 1.5]}, {"a": None, "b": [None, 1.5]}),
        ({b"k": 1, 2: b"v\xff"}, {'{"$bytes":"aw=="}': 1, "2": {"$bytes": "dv8="}}),
        ({"t": (1, 2)}, {"t": [1, 2]}),
    ],
)
def test_json_is_json(value: Any, expected: Any) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert json.loads(json_text(value), parse_constant=refuse) == expected


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_a_payload_of_many_levels(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    job = queue.add("n", nested(600))
    assert '[{"$truncated": "depth"}]' in json.dumps(cli("job", job.id, "-q", queue.name, "--json").json["payload"])
    assert "payload    [[[[" in cli("job", job.id, "-q", queue.name).out
    client.set(f"{{chasqui:{queue.name}}}:result:{job.id}", msgpack.packb(nested(900)))
    assert cli("result", job.id, "-q", queue.name).code == 0
    assert cli("result", job.id, "-q", queue.name, "--json").code == 0


def test_numbers_that_are_none(cli: Callable[..., Any], queue: SyncQueue) -> None:
    job = queue.add("n", {"x": float("nan")})
    said = cli("job", job.id, "-q", queue.name, "--json")
    assert "NaN" not in said.out
    assert said.json["payload"] == {"x": None}


def test_a_job_deep_in_the_queue(cli: Callable[..., Any], queue: SyncQueue) -> None:
    jobs = queue.add_bulk([{"name": "n", "data": n} for n in range(12_000)])
    said = cli("job", jobs[6000].id, "-q", queue.name, "--json")
    assert (said.code, said.json["state"], said.json["payload"]) == (0, "waiting", 6000)


def test_a_dead_job_has_no_result_to_wait_for(cli: Callable[..., Any], queue: SyncQueue, client: redis.Redis) -> None:
    envelope = msgpack.packb(["gone", msgpack.packb(1), 1_700_000_000_000, 2])
    fields: Any = {"d": envelope, "n": "mail", "source_id": "1-1", "reason": "unrecoverable", "detail": "no such user"}
    client.xadd(f"{{chasqui:{queue.name}}}:dlq", fields)
    said = cli("result", "gone", "-q", queue.name)
    assert (said.code, said.out) == (1, "")
    for part in ("CMQ-311", "unrecoverable", "no such user", "chasqui dlq peek"):
        assert part in said.err
    assert "is unknown" in cli("result", "nobody", "-q", queue.name).err


def test_times_that_no_calendar_has() -> None:
    assert iso(2**52) == f"{2**52} ms"
    assert params.parse_time("2027-01-01T00:00:00+02:00").isoformat() == "2026-12-31T22:00:00+00:00"


def test_every_code_that_the_command_says_is_on_the_page() -> None:
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    sources = (ROOT / "chasqui_engine/cli").rglob("*.py")
    said = {code for source in sources for code in re.findall(r"CMQ-\d+", source.read_text(encoding="utf-8"))}
    assert {code for code in said if f"| {code} |" not in page} == set()
