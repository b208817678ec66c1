"""The scale run: rows become jobs, real workers work them off, and what they told goes through the pipeline.

At several sizes, so that the cost of a row can be held against their number. Nothing counts unless it happened: the
queue must hold as many jobs as there were rows, be empty after the work, and the report must know each as completed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import redis
from pyspark.sql import SparkSession

from benchmarks.spark.common import DRIVER_MEMORY, jobs, read_all, say, source, time_it, write
from benchmarks.spark.memory import Peaks, below
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.run import STEPS, Pipeline

FLAT_BAR = 1.5
"""A row of the largest size may cost so many times one of the smallest."""
_CALLED = {"work": "worked off (the engine's workers, not Spark)"}
_WARM_UP = 20_000
_STUCK_S = 120.0


def measure(
    spark: SparkSession, client: redis.Redis, url: str, server_pid: int, sizes: Sequence[int]
) -> dict[str, Any]:
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    workers: list[subprocess.Popen[bytes]] = []
    watched = {
        "server": lambda: [server_pid],
        "driver JVM": lambda: [jvm],
        "Spark's Python processes": lambda: below(jvm),
        "Chasqui workers": lambda: [worker.pid for worker in workers],
    }
    one_size(spark, client, url, _WARM_UP, workers)
    found = []
    with Peaks(watched) as peaks:
        for size in sorted(sizes):
            found.append(one_size(spark, client, url, size, workers))
            say(str(found[-1]))
    return {"sizes": found, "peak_mb": peaks.mb, "driver_memory": DRIVER_MEMORY, "workers": _worker_count()}


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    first, last = found["sizes"][0], found["sizes"][-1]
    told = {}
    for what in ("write", "work", "read", "pipeline"):
        growth = last["us_per_row"][what] / first["us_per_row"][what]
        text = f"at {last['rows']:,} rows, one costs {growth:.2f} × what it costs at {first['rows']:,}"
        told[f"{_CALLED.get(what, what)}: {text} (bar {FLAT_BAR})"] = growth <= FLAT_BAR
    return told


def one_size(
    spark: SparkSession, client: redis.Redis, url: str, rows: int, workers: list[subprocess.Popen[bytes]]
) -> dict[str, Any]:
    """Seconds of each step, and microseconds per row (of the queue, or of the events)."""
    queue = f"scale-{rows}"
    stream, told = f"{{chasqui:{queue}}}:stream", f"{{chasqui:{queue}}}:events"
    seconds = {"write": time_it(lambda: write(jobs(spark, rows), url, queue))}
    assert client.xlen(stream) == rows, "as many jobs as rows"
    say(f"{rows:,} rows are jobs after {seconds['write']:.1f} s")
    seconds["work"] = work_off(client, url, queue, workers)
    events = int(client.xlen(told))
    assert events >= 2 * rows, "no event was trimmed"
    say(f"worked off after {seconds['work']:.1f} s, {events:,} events")
    seconds["read"] = time_it(lambda: read_all(source(spark, url, queue)))
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(spark, PipelineConfig(queues=(queue,), out=f"file://{folder}", url=url), say)
        for step in STEPS:
            seconds[step] = time_it(lambda step=step: pipeline.run((step,)))  # type: ignore[misc]
        totals = pipeline.report()["queues"][queue]["totals"]
        assert (totals["completed"], totals["failed"], totals["arrived"]) == (rows, 0, rows), totals
    for key in client.scan_iter(f"{{chasqui:{queue}}}:*", count=1000):
        client.unlink(key)
    seconds["pipeline"] = sum(seconds[step] for step in STEPS)
    counted = {"write": rows, "work": rows}
    cost = {what: took / counted.get(what, events) * 1e6 for what, took in seconds.items()}
    return {"rows": rows, "events": events, "seconds": seconds, "us_per_row": cost}


def work_off(client: redis.Redis, url: str, queue: str, workers: list[subprocess.Popen[bytes]]) -> float:
    """From the first job that is done to the last, by worker processes of their own."""
    stream = f"{{chasqui:{queue}}}:stream"
    left = before = int(client.xlen(stream))
    command = [sys.executable, "-m", "benchmarks.spark.worker", url, queue]
    workers[:] = [subprocess.Popen(command) for _ in range(_worker_count())]
    started, moved_at = 0.0, time.perf_counter()
    try:
        while left:
            time.sleep(0.02)
            now, left = time.perf_counter(), int(client.xlen(stream))
            if left < before:
                started, moved_at, before = started or now, now, left
            if now - moved_at > _STUCK_S or any(worker.poll() is not None for worker in workers):
                raise RuntimeError(f"the workers of {queue} have stopped with {left:,} jobs left")
        return time.perf_counter() - started
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(60)
        workers.clear()


def _worker_count() -> int:
    return max(1, min(2, (os.cpu_count() or 2)))
