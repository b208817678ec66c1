"""The report: a summary in JSON, and one page that needs nothing else."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from chasqui_engine.pipeline import gold
from chasqui_engine.pipeline.bronze import Progress
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.report.html import render_page
from chasqui_engine.pipeline.report.summary import NO_EVENTS, summarize, summarize_nothing, without_news
from chasqui_engine.pipeline.slo import Slo


def update(spark: SparkSession, store: Files, config: PipelineConfig, progress: Progress) -> dict[str, Any]:
    """Writes page and summary; changes nothing when gold did not change. In what it returns, a breach is new if no
    report had it before."""
    manifest = gold.read_manifest(store)
    before = store.read_json("report", "summary.json")
    if before is not None and before["gold"] == manifest["version"]:
        return without_news(before)
    if not manifest["version"]:
        summary = summarize_nothing(config.window_s)
    else:
        slos = [Slo(**slo) for slo in manifest["slos"]]
        metrics, windows = gold.read_metrics(spark, store), gold.read_windows(spark, store)
        reported = before["gold"] if before else 0
        summary = summarize(metrics, windows, manifest["window_s"], slos, reported=reported)
    summary["gold"] = manifest["version"]
    store.write_text(render_page(summary), "report", "index.html")
    store.write_json(summary, "report", "summary.json")
    progress(f"report  {sum(len(queue['windows']) for queue in summary['queues'].values())} windows")
    for slo in summary["slos"]:
        if slo["verdict"] == NO_EVENTS:
            name = f", name {slo['name']!r}" if slo["name"] else ""
            progress(f"report  the SLO for queue {slo['queue']!r}{name} was not judged: there are no events of it")
    return summary
