"""The pipeline from the command line, and the demo's report; on the tests' Spark, which they would otherwise start."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.cli.app import run as chasqui
from chasqui_engine.codec.envelope import encode_envelope, encode_payload
from chasqui_engine.pipeline import __main__ as command
from demo import spark as spark_module
from tests.spark.integration.pipeline.pipelines import far_from_utc
from tests.spark.integration.read.test_batch_read import fill_events
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql import SparkSession

    from tests.spark.integration.conftest import Queues


class Kept:
    """A session that outlives whoever stops it."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """Others still need it."""


@pytest.fixture(autouse=True)
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (command, spark_module):
        monkeypatch.setattr(module, "start_session", lambda *_, **__: Kept(spark))


@pytest.mark.slow
def test_a_report_from_the_command_line(
    q: Queues, client: redis.Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_events(client, q.key("events"), 40)
    slo = tmp_path / "slo.yaml"
    slo.write_text(json.dumps({"slos": [{"queue": q.queue, "throughput_per_s": 1000}]}))
    words = ["--url", q.url, "pipeline", "run", "-q", q.queue, "--out", f"{tmp_path}/out", "--window", "3600"]
    assert chasqui([*words, "--slo", str(slo), "--fail-on-breach", "--json"]) == 3
    told = capsys.readouterr()
    summary = json.loads(told.out)
    assert summary["queues"][q.queue]["totals"]["completed"] == 40
    assert summary["breaches"] == 1
    page = tmp_path / "out" / "report" / "index.html"
    assert f"file://{page}" in told.err, "a link, which a terminal opens"
    assert summary["page"] == f"file://{page}"
    assert page.exists()
    # It has been told.
    assert chasqui([*words, "--slo", str(slo), "--fail-on-breach"]) == 0
    # With nothing promised any more, gold is rebuilt without the breach; from files, without a server.
    words[1] = "redis://127.0.0.1:1"
    assert chasqui([*words, "--steps", "gold", "report", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["breaches"] == 0


def test_what_is_wrong_is_told_before_spark_starts(
    q: Queues, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "start_session", lambda *_: pytest.fail("Spark was started"))
    assert chasqui(["pipeline", "run", "-q", "q", "--url", "redis://u:hunter2@127.0.0.1:1"]) == 4
    assert chasqui(["pipeline", "run", "-q", "q", "--url", q.url, "--slo", f"{tmp_path}/none"]) == 2
    assert chasqui(["pipeline", "run", "-q", "q", "--url", q.url, "--window", "7"]) == 2
    assert chasqui(["pipeline", "run", "-q", "q", "--url", q.url, "--keep-days", "0"]) == 2
    assert chasqui(["pipeline", "run", "-q", "q", "--url", q.url, "--conn-id", "chasqui_default"]) == 2
    assert chasqui(["pipeline", "run", "--nonsense"]) == 2
    told = capsys.readouterr().err
    for sentence in (
        "cannot reach the server at 127.0.0.1:1",
        "the SLO file",
        "window must divide a day",
        "keep_days must be at least 1, got 0",
        "pass url or conn_id, not both",
        "--queue",
    ):
        assert sentence in told
    assert "hunter2" not in told
    assert chasqui(["pipeline", "run", "--help"]) == 0
    assert "--fail-on-breach" in capsys.readouterr().out


def test_what_spark_finds_wrong_is_one_line(q: Queues, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--queue", q.queue, "--url", q.url]
    (tmp_path / "file").touch()
    assert command.main([*words, "--out", f"{tmp_path}/file/out"]) == 2
    assert command.main([*words, "--redrive", "nope = 1"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert f"cannot write to '{tmp_path}/file/out'" in lines[0]
    assert "got 'nope = 1': there is no column 'nope'" in lines[1]


@pytest.mark.slow
def test_lost_events_are_told_in_a_sentence_and_can_be_passed_over(
    q: Queues, client: redis.Redis, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--queue", q.queue, "--url", q.url, "--out", f"{tmp_path}/out", "--steps", "bronze"]
    fill_events(client, q.key("events"), 10)
    assert command.main(words) == 0
    fill_events(client, q.key("events"), 10, start=10)
    client.xtrim(q.key("events"), maxlen=4, approximate=False)
    assert command.main(words) == 1
    (sentence,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert "6 entries of the events" in sentence
    assert "--skip-lost" in sentence
    assert command.main([*words, "--skip-lost"]) == 0


def test_dead_letters_are_redriven_from_the_command_line(
    q: Queues, client: redis.Redis, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(3):
        envelope = encode_envelope(f"j{n}", encode_payload({"n": n}), 1, 3)
        client.xadd(q.key("dlq"), {"d": envelope, "n": "send", "source_id": "1-0", "reason": "unrecoverable"})
    words = ["--queue", q.queue, "--url", q.url, "--json", "--redrive", "get_json_object(payload_json, '$.n') > 0"]
    assert command.main([*words, "--dry-run"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"queue": q.queue, "selected": 2, "fresh": 2, "redriven": 0}
    assert "2 dead letters match" in printed.err
    assert '{"n":1}' in printed.err
    assert command.main(words) == 2
    assert "confirmation required, but stdin is not a terminal: pass --yes" in capsys.readouterr().err
    assert client.xlen(q.key("stream")) == 0
    assert command.main([*words, "--yes", "--by", "ada"]) == 0
    assert json.loads(capsys.readouterr().out) == {"queue": q.queue, "selected": 2, "fresh": 2, "redriven": 2}
    assert client.xlen(q.key("stream")) == 2
    assert command.main([*words, "--yes"]) == 0
    assert "2 were redriven before" in capsys.readouterr().err


@pytest.mark.slow
def test_bronze_keeps_running_until_it_is_stopped(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 9)
    at_two_in_utc = {"e": "active", "id": "j9", "ts": 1_789_956_000_000, "attempt": 1}
    client.xadd(q.key("events"), at_two_in_utc)
    codes: list[int] = []
    words = ["--queue", q.queue, "--url", q.url, "--out", f"file://{tmp_path}/out", "--continuous"]
    running = threading.Thread(target=lambda: codes.append(command.main(words)))
    with far_from_utc(q.spark):
        running.start()
        try:
            for expected in (10, 25):
                wait_for(lambda expected=expected: rows_in_bronze(q, tmp_path) == expected, timeout_s=120, every_s=0.2)
                fill_events(client, q.key("events"), 15, start=expected)
        finally:
            for query in q.spark.streams.active:
                query.stop()
            running.join(60)
    assert codes == [0]
    days = (tmp_path / "out" / "bronze" / "events" / q.queue).glob("day=*")
    assert {day.name for day in days} == {"day=2023-11-14", "day=2026-09-21"}


def rows_in_bronze(q: Queues, folder: Path) -> int:
    whole = folder / "out" / "bronze" / "_whole" / "events" / f"{q.queue}.json"
    if not whole.exists():
        return 0
    return int(q.spark.read.parquet(f"file://{folder}/out/bronze/events/{q.queue}").count())


@pytest.mark.slow
def test_the_demos_report(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    fill_events(client, q.key("events"), 40)
    said: list[str] = []
    page = spark_module.write_report(q.url, [q.queue], tmp_path / "demo", say=said.append)
    assert page == tmp_path / "demo" / "report.html"
    assert page.read_text().count("<svg") == 6
    assert str(page) in said[-1]
    assert any("silver" in text for text in said)
