"""What a pipeline made, held against a plain pass over the same events."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chasqui_engine.pipeline import gold, silver
from chasqui_engine.pipeline.run import Pipeline
from tests.spark.integration.pipeline import plain_answers, plain_pass
from tests.spark.integration.pipeline.made_events import Event
from tests.spark.integration.pipeline.pipelines import WINDOW_S, in_utc, moment

TIMES = ("enqueued", "ready", "active", "finished", "arrived", "departed")
AS_THEY_ARE = ("name", "status", "handler_us", "retried", "reason", "dead_reason", "partial")


def silver_rows(work: Pipeline) -> dict[plain_pass.Key, dict[str, Any]]:
    rows = silver.read(work.spark, work.store, silver.read_manifest(work.store)).collect()
    found = {(row.job_key, row.life, row.attempt): row.asDict() for row in rows}
    assert len(found) == len(rows), "one row per job, life and attempt"
    return found


def check_silver(work: Pipeline, events: list[Event]) -> plain_answers.Windows:
    """Returns the windows of a plain pass."""
    expected = plain_pass.attempts(events)
    found = silver_rows(work)
    assert found.keys() == expected.keys()
    for key, row in expected.items():
        seen = {what: found[key][what] for what in AS_THEY_ARE} | {"latency_ms": found[key]["queue_latency_ms"]}
        seen |= {what: in_utc(found[key][f"{what}_at"]) for what in TIMES}
        assert seen == {what: moment(row[what]) if what in TIMES else row[what] for what in seen}, key
    return plain_pass.windows(expected, WINDOW_S)


def check_gold(work: Pipeline, windows: plain_answers.Windows) -> None:
    expected = plain_answers.metrics(windows, WINDOW_S)
    rows = gold.read_metrics(work.spark, work.store).collect()
    found = {((row.scope, row.name), int(row.window_start.timestamp())): row.asDict() for row in rows}
    assert found.keys() == {(line, start) for line, cells in expected.items() for start in cells}
    for (line, start), row in found.items():
        same(row, expected[line][start], f"{line} {start}")
        assert row["window_end"].timestamp() == start + WINDOW_S


def same(row: dict[str, Any], wanted: dict[str, Any], where: str) -> None:
    for what, value in wanted.items():
        assert row[what] == (pytest.approx(value) if isinstance(value, float) else value), f"{where}: {what}"


@dataclass
class Reports:
    """The reports of one pipeline, one after the other, each held against what was promised."""

    slos: list[dict[str, Any]]
    told: set[tuple[Any, ...]] = field(default_factory=set)

    def write(self, folder: Path) -> str:
        (folder / "slo.yaml").write_text(json.dumps({"slos": self.slos}))
        return str(folder / "slo.yaml")

    def check(self, summary: dict[str, Any], windows: plain_answers.Windows, now_s: float, queue: str = "q") -> None:
        found = summary["queues"][queue]
        same(found["totals"], plain_answers.totals(windows, WINDOW_S), "totals")
        for row in found["names"]:
            same(row, plain_answers.totals(windows, WINDOW_S, row["name"]), row["name"])
        for table, what in (("slowest", "handler_p95_ms"), ("most_failing", "failure_rate")):
            assert [row["name"] for row in found[table]] == plain_answers.ranking(windows, WINDOW_S, what)
        lines = plain_answers.metrics(windows, WINDOW_S)
        whole = lines["queue", ""]
        assert [row["window_start"] for row in found["windows"]] == [iso(start) for start in sorted(whole)]
        same(found["latest"], whole[max(whole)], "latest")
        self._check_breaches(summary, plain_answers.judged(lines, self.slos, WINDOW_S, now_s))

    def _check_breaches(self, summary: dict[str, Any], judged: list[dict[str, Any]]) -> None:
        broken = {(one["name"], one["metric"], iso(one["start"])): one["value"] for one in judged if not one["kept"]}
        (found,) = summary["queues"].values()
        assert summary["breaches"] == found["breaches_in_all"] == len(broken)
        assert summary["new_breaches"] == found["new_breaches"] == len(broken.keys() - self.told)
        for row in found["breaches"]:
            key = (row["name"], row["metric"], row["window_start"])
            assert row["value"] == pytest.approx(broken[key])
            assert row["new"] == (key not in self.told)
        for promise in summary["slos"]:
            mine = [o["kept"] for o in judged if (o["name"], o["metric"]) == (promise["name"], promise["metric"])]
            assert (promise["judged"], promise["broken"]) == (len(mine), mine.count(False))
        self.told |= broken.keys()


def iso(start: int) -> str:
    return datetime.fromtimestamp(start, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
