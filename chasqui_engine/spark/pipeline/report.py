"""The report: what gold answers, as a summary in JSON and as one page that stands alone."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.spark.pipeline import gold
from chasqui_engine.spark.pipeline.bronze import Say
from chasqui_engine.spark.pipeline.config import PipelineConfig
from chasqui_engine.spark.pipeline.page import page
from chasqui_engine.spark.pipeline.store import Store

_TOP = 8
_MOST_WINDOWS = 400
"""Windows of a queue that the page draws, the latest ones."""
_MOST_BREACHES = 50


def update(spark: SparkSession, store: Store, config: PipelineConfig, say: Say) -> dict[str, Any]:
    """Writes page and summary; changes nothing when gold did not change."""
    held = gold.manifest(store)
    before = store.read_json("report", "summary.json")
    if before is not None and before["gold"] == held["version"]:
        return before
    if not held["version"]:
        found: dict[str, Any] = {"window_s": config.window_s, "queues": {}, "breaches": 0}
    else:
        found = summary(gold.read_metrics(spark, store), gold.read_windows(spark, store), held["window_s"])
    found["gold"] = held["version"]
    found["slos"] = len(held["slos"])
    store.write_text(page(found), "report", "index.html")
    store.write_json(found, "report", "summary.json")
    say(f"report  {sum(len(queue['windows']) for queue in found['queues'].values())} windows")
    return found


def summary(metrics: DataFrame, windows: DataFrame, window_s: int) -> dict[str, Any]:
    """Everything the page shows."""
    rows = metrics.orderBy("queue", "window_start").collect()
    queues = sorted({row.queue for row in rows})
    totals = {row.queue: row for row in _totals(windows, "queue").collect()}
    names = _totals(windows, "queue", "name").collect()
    return {
        "window_s": window_s,
        "queues": {
            queue: _queue(
                [row for row in rows if row.queue == queue], totals[queue], [row for row in names if row.queue == queue]
            )
            for queue in queues
        },
        "breaches": sum(len(row.breaches) for row in rows),
    }


def _totals(windows: DataFrame, *by: str) -> DataFrame:
    span = windows.groupBy(*by).agg(
        (F.unix_seconds(F.max("window_start")) - F.unix_seconds(F.min("window_start"))).alias("seconds")
    )
    frame = gold.merged(windows, *by).join(span, list(by))
    return gold.with_answers(frame, F.greatest(F.col("seconds"), F.lit(1))).drop("latency_sketch", "handler_sketch")


def _queue(rows: list[Row], total: Row, names: list[Row]) -> dict[str, Any]:
    whole = [_plain(row) for row in rows if row.scope == "queue"]
    broken = [
        {**breach.asDict(), "name": row.name if row.scope == "name" else None, "window_start": _iso(row.window_start)}
        for row in rows
        for breach in row.breaches
    ]
    by_name = [_plain(row) for row in names]
    slow = sorted((n for n in by_name if n["handler_p95_ms"] is not None), key=lambda n: -n["handler_p95_ms"])
    failing = sorted((n for n in by_name if n["failed"]), key=lambda n: (-n["failure_rate"], -n["failed"]))
    return {
        "totals": _plain(total),
        "windows": whole[-_MOST_WINDOWS:],
        "latest": whole[-1] if whole else None,
        "names": sorted(by_name, key=lambda n: -(n["completed"] + n["failed"]))[: 4 * _TOP],
        "slowest": slow[:_TOP],
        "most_failing": failing[:_TOP],
        "breaches": broken[-_MOST_BREACHES:],
        "breaches_in_all": len(broken),
    }


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON holds it."""
    found = {key: value for key, value in row.asDict().items() if key not in ("breaches", "scope")}
    return {key: _iso(value) if hasattr(value, "isoformat") else value for key, value in found.items()}


def _iso(moment: Any) -> str:
    text: str = moment.isoformat()
    return text + "Z"
