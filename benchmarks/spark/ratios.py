"""Our source and sink against what people write by hand, taking turns in one run."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import redis
from pyspark.sql import SparkSession

from benchmarks.spark import baselines
from benchmarks.spark.common import fill, jobs, read_all, say, source, time_it, write

READ_BAR, WRITE_BAR = 3.0, 2.5


def measure(spark: SparkSession, client: redis.Redis, url: str, rows: int, repeat: int) -> dict[str, Any]:
    return {
        "read": read_ratio(spark, client, url, rows, repeat),
        "write": write_ratio(spark, client, url, rows, repeat),
        "rows": rows,
        "repeat": repeat,
    }


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    read, written = found["read"]["ratio"], found["write"]["ratio"]
    return {
        f"read {read:.2f} × the tuple reader (bar {READ_BAR})": read >= READ_BAR,
        f"fenced write {written:.2f} × foreachPartition (bar {WRITE_BAR})": written >= WRITE_BAR,
    }


def read_ratio(spark: SparkSession, client: redis.Redis, url: str, rows: int, repeat: int) -> dict[str, Any]:
    """Ours against a Python data source that gives tuples from a redis client's replies."""
    spark.dataSource.register(baselines.TupleSource)
    fill(client, "read", rows)
    rival = spark.read.format("tuples").option("url", url).option("key", "{chasqui:read}:events").load()
    ours = source(spark, url, "read")
    assert ours.count() == rival.count() == rows
    speeds = _in_turns({"ours": lambda: read_all(ours), "tuples": lambda: read_all(rival)}, rows, repeat)
    client.delete("{chasqui:read}:events")
    say(f"read {speeds}")
    return {**speeds, "ratio": speeds["ours"] / speeds["tuples"]}


def write_ratio(spark: SparkSession, client: redis.Redis, url: str, rows: int, repeat: int) -> dict[str, Any]:
    """Ours, fenced and not, against `foreachPartition` with a client's pipeline that writes the same jobs."""
    frame = jobs(spark, rows)
    numbers = iter(range(10**6))

    def into(work: Callable[[str], None]) -> Callable[[], None]:
        def run() -> None:
            queue = f"w{next(numbers)}"
            work(queue)
            assert client.xlen(f"{{chasqui:{queue}}}:stream") == rows
            client.delete(f"{{chasqui:{queue}}}:stream")

        return run

    ways = {
        "fenced": into(lambda queue: write(frame, url, queue)),
        "unfenced": into(lambda queue: write(frame, url, queue, fence="none")),
        "foreachPartition": into(lambda queue: baselines.write_by_hand(frame, url, queue)),
    }
    speeds = _in_turns(ways, rows, repeat)
    say(f"write {speeds}")
    return {**speeds, "ratio": speeds["fenced"] / speeds["foreachPartition"]}


def _in_turns(ways: dict[str, Callable[[], None]], rows: int, repeat: int) -> dict[str, float]:
    """Rows per second of each way, after one run to warm up: the median of runs that take turns, so that a slow moment
    hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeat + 1):
        for name, work in ways.items():
            speed = rows / time_it(work)
            if turn:
                found[name].append(speed)
    return {name: round(statistics.median(speeds)) for name, speeds in found.items()}
