"""The pipeline beside polars and duckdb, over the same events, in one run.

All of them begin with the same Parquet files, which bronze wrote. The start of Spark's session is not counted, nor the
import of the others.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import SparkSession

from benchmarks.environments import python_with
from benchmarks.spark.common import fill, say, time_it
from chasqui_engine.pipeline.bronze import folder_name
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.run import STEPS, Pipeline

RIVALS = {"polars": ("polars==2.1.0",), "duckdb": ("duckdb==2.0.0", "pytz")}
BAR = 2.0
"""Silver and gold may take so many times as long as the quicker of them."""
_WARM_UP = 20_000
_WINDOW_S = 300


def measure(
    spark: SparkSession, client: redis.Redis, url: str, events: int, folder: str | None = None
) -> dict[str, Any]:
    _ours(spark, client, url, _WARM_UP)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        ours = _ours(spark, client, url, events, out)
        bronze = str(Path(out) / "bronze" / "events" / folder_name("beside"))
        rivals = {name: _run(name, bronze) for name in RIVALS}
    for name, found in rivals.items():
        assert found["total_completed"] == events // 2, (name, found)
        say(f"{name} {found}")
    return {"events": events, "ours": ours, "rivals": rivals, "load": Path("/proc/loadavg").read_text().split()[0]}


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    ours = found["ours"]["silver"] + found["ours"]["gold"]
    theirs = {name: one["attempts"] + one["metrics"] for name, one in found["rivals"].items()}
    best = min(theirs, key=lambda name: float(theirs[name]))
    ratio = ours / theirs[best]
    return {f"silver and gold take {ratio:.1f} × what {best} takes (bar {BAR})": ratio <= BAR}


def table(found: dict[str, Any]) -> list[str]:
    """Seconds, and microseconds per event."""
    events, rivals = found["events"], found["rivals"]

    def cell(seconds: float | None) -> str:
        return "" if seconds is None else f"{seconds:.1f} s, {seconds / events * 1e6:.2f} µs"

    rows = {
        "events out of Redis into Parquet (bronze)": (found["ours"]["bronze"], None, None),
        "events into attempts (silver)": (found["ours"]["silver"], *(rivals[name]["attempts"] for name in RIVALS)),
        "attempts into metrics (gold)": (found["ours"]["gold"], *(rivals[name]["metrics"] for name in RIVALS)),
        "report": (found["ours"]["report"], None, None),
    }
    lines = [f"| {events:,} events | ours | {' | '.join(RIVALS)} |", f"| --- |{' ---: |' * (1 + len(RIVALS))}"]
    return lines + [f"| {label} | {' | '.join(map(cell, cells))} |" for label, cells in rows.items()]


def _ours(
    spark: SparkSession, client: redis.Redis, url: str, events: int, folder: str | None = None
) -> dict[str, float]:
    fill(client, "beside", events)
    with tempfile.TemporaryDirectory() as scratch:
        config = PipelineConfig(
            queues=("beside",),
            out=f"file://{folder or scratch}",
            url=url,
            entities=("events",),
            window_s=_WINDOW_S,
        )
        pipeline = Pipeline(spark, config, say)
        seconds = {step: time_it(lambda step=step: pipeline.run((step,))) for step in STEPS}  # type: ignore[misc]
        totals = pipeline.report()["queues"]["beside"]["totals"]
        assert totals["completed"] == events // 2, totals
    client.delete("{chasqui:beside}:events")
    return seconds


def _run(name: str, folder: str) -> dict[str, Any]:
    """The best of three: files are in the system's cache for all, as they were for Spark."""
    command = [
        python_with(name, RIVALS[name]),
        str(Path(__file__).with_name("one_machine.py")),
        name,
        folder,
        str(_WINDOW_S),
    ]
    found = []
    for _ in range(3):
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
        found.append({**json.loads(done.stdout), "with_start": time.perf_counter() - started})
    return min(found, key=lambda one: float(one["attempts"] + one["metrics"]))
