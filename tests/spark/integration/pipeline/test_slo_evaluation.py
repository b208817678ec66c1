"""What was promised, on answers computed of events: what is judged, when, and what is told as new."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.pipeline import gold
from tests.spark.integration.pipeline.made_events import completed, event
from tests.spark.integration.pipeline.pipelines import AFTER_BRONZE, pipeline, tell

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from chasqui_engine.pipeline.run import Pipeline

START_S = 1_790_000_100 // 300 * 300
START_MS = START_S * 1000


def five_minutes(spark: SparkSession, folder: Path, slos: list[dict[str, Any]], **settings: Any) -> Pipeline:
    (folder / "slo.yaml").write_text(json.dumps({"slos": slos}))
    return pipeline(spark, folder / "out", window_s=300, slo_file=str(folder / "slo.yaml"), **settings)


def report(work: Pipeline) -> dict[str, Any]:
    found = work.run(AFTER_BRONZE)
    assert found is not None
    return found


def verdicts(summary: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(slo["queue"], slo["metric"]): slo["verdict"] for slo in summary["slos"]}


def test_a_queue_that_stands_still_breaks_its_promises(spark: SparkSession, tmp_path: Path) -> None:
    said: list[str] = []
    slos = [
        {"queue": "q", "backlog": 5, "throughput_per_s": 100, "success_rate": 0.99},
        {"queue": "typo", "success_rate": 0.99},
    ]
    work = five_minutes(spark, tmp_path, slos)
    work.progress = said.append
    tell(work, 0, [event("delayed", START_MS + n, f"j{n}", delay_ms=1) for n in range(50)])
    found = report(work)
    assert {(one["metric"], one["value"]) for one in found["queues"]["q"]["breaches"]} == {
        ("backlog", 50),
        ("throughput_per_s", 0),
    }
    assert verdicts(found) == {
        ("q", "backlog"): "broken",
        ("q", "throughput_per_s"): "broken",
        ("q", "success_rate"): "not judged",
        ("typo", "success_rate"): "no events",
    }
    assert any("'typo'" in text and "there are no events of it" in text for text in said)


@pytest.mark.slow
def test_a_rate_is_judged_once_its_window_is_over(spark: SparkSession, tmp_path: Path) -> None:
    clock = [START_S + 60.0]
    work = five_minutes(spark, tmp_path, [{"queue": "q", "throughput_per_s": 0.5}], now=lambda: clock[0])
    tell(work, 0, [told for n in range(60) for told in completed(START_MS + n * 1000, f"j{n}")])
    found = report(work)
    assert (found["breaches"], verdicts(found)) == (0, {("q", "throughput_per_s"): "not judged"})
    version = gold.read_manifest(work.store)["version"]
    assert report(work)["gold"] == version, "nothing new changes nothing"
    clock[0] = START_S + 300.0
    found = report(work)
    assert [one["value"] for one in found["queues"]["q"]["breaches"]] == [pytest.approx(0.2)]
    assert found["new_breaches"] == 1
    assert report(work)["gold"] == found["gold"]


@pytest.mark.slow
def test_a_breach_is_new_once(spark: SparkSession, tmp_path: Path) -> None:
    work = five_minutes(spark, tmp_path, [{"queue": "q", "success_rate": 0.99}])
    broken = {"attempt": 1, "duration_us": 1, "reason": "boom"}
    tell(work, 0, [event("failed", START_MS, "a", **broken)])
    found = report(work)
    assert (found["breaches"], found["new_breaches"]) == (1, 1)
    assert report(work)["new_breaches"] == 0
    tell(work, 1, completed(START_MS + 86_400_000, "b"))
    found = report(work)
    assert (found["breaches"], found["new_breaches"]) == (1, 0)
    # Gold may be rebuilt several times before the next report, which misses nothing.
    tell(work, 2, [event("failed", START_MS + 2 * 86_400_000, "c", **broken)])
    work.run(("silver", "gold"))
    tell(work, 3, completed(START_MS + 3 * 86_400_000, "d"))
    found = report(work)
    assert (found["breaches"], found["new_breaches"]) == (2, 1)
    assert [one["new"] for one in found["queues"]["q"]["breaches"]] == [False, True]


def test_the_window_before_is_the_one_directly_before(spark: SparkSession, tmp_path: Path) -> None:
    work = five_minutes(spark, tmp_path, [])
    starts = [(0, 300), (300, 150), (3 * 3600, 30)]
    tell(
        work,
        0,
        [
            told
            for at, jobs in starts
            for n in range(jobs)
            for told in completed(START_MS + at * 1000 + n * 900, f"{at}-{n}")
        ],
    )
    found = report(work)["queues"]["q"]
    assert [row["throughput_per_s_change"] for row in found["windows"]] == [
        None,
        pytest.approx(-0.5),
        pytest.approx(0.1),
    ]
    assert [row["failure_rate_change"] for row in found["windows"]] == [None, 0, None]
    assert found["totals"]["throughput_per_s"] == pytest.approx(480 / (3 * 3600 + 300))
    html = (tmp_path / "out" / "report" / "index.html").read_text()
    bars = [float(part.partition('"')[0]) for part in html.partition("Queue latency")[0].split('<rect x="')[1:]]
    assert bars[1] - bars[0] == pytest.approx((bars[2] - bars[0]) / 36, abs=0.1)
