"""Spark against a server of its own: ratios of our source and sink to what people write by hand, in one run.

    python -m benchmarks.spark                      # ratios at 1,000,000 rows, cost per row at 100,000 to 1,000,000
    python -m benchmarks.spark --scale 5000000      # the scale run: rows in, worked off as events, through the pipeline

Bars: read ≥ 3 × the reader of tuples from a redis client; fenced write ≥ 2.5 × `foreachPartition` with a client's
pipeline; cost per row flat.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.spark import rivals
from tests.servers import ServerProcess

READ_BAR, WRITE_BAR, FLAT_BAR = 3.0, 2.5, 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--scale", type=int, default=0, help="rows of the scale run; 0: none")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    args = parser.parse_args()
    spark = _session()
    figures: dict[str, Any] = {"cores": os.cpu_count()}
    with ServerProcess() as server:
        client = redis.Redis.from_url(server.url)
        try:
            figures["read"] = read_ratio(spark, client, server.url, args.rows, args.repeat)
            figures["write"] = write_ratio(spark, client, server.url, args.rows, args.repeat)
            figures["sizes"] = [one_size(spark, client, server.url, size) for size in args.sizes]
            if args.scale:
                figures["scale"] = scale_run(spark, client, server.url, args.scale)
        finally:
            client.close()
            spark.stop()
    print(json.dumps(figures, indent=1))
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if _bars(figures) else 1


def _session() -> SparkSession:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("chasqui-bench").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", "2g").config("spark.log.level", "ERROR")
    return (
        builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", 4).getOrCreate()
    )


def _source(spark: SparkSession, url: str, queue: str, entity: str = "events") -> DataFrame:
    options = {"url": url, "queue": queue, "entity": entity}
    return spark.read.format("chasqui").options(**options).load()


def _jobs(spark: SparkSession, rows: int) -> DataFrame:
    frame = spark.range(0, rows, 1, 2)
    text = F.concat(F.lit('{"user":'), F.col("id").cast("string"), F.lit(',"template":"welcome","locale":"en"}'))
    return frame.select(F.lit("send").alias("name"), text.alias("payload"))


def _sink(frame: DataFrame, url: str, queue: str, **options: str) -> None:
    settings = {"url": url, "queue": queue, "maxStreamLen": str(10**9), **options}
    frame.write.format("chasqui").options(**settings).mode("append").save()


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _in_turns(ways: dict[str, Callable[[], None]], rows: int, repeat: int) -> dict[str, int]:
    """Rows per second of each way, the median of runs that take turns, so that a slow moment hits all of them."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeat):
        for name, work in ways.items():
            found[name].append(rows / _timed(work))
    return {name: round(statistics.median(speeds)) for name, speeds in found.items()}


def fill(client: redis.Redis, queue: str, rows: int) -> None:
    """Events as a worker tells them: two per job."""
    client.delete(f"{{chasqui:{queue}}}:events")
    for chunk in _chunks(rows, 10_000):
        pipe = client.pipeline(transaction=False)
        for n in chunk:
            common = {
                "id": f"01M7HTBCVQ2JBKDJ3W{n // 2:08d}",
                "ts": 1_794_820_000_000 + n,
                "n": f"name-{n % 7}",
                "attempt": 1,
            }
            event = {"e": "completed", **common, "duration_us": n % 90_000} if n % 2 else {"e": "active", **common}
            pipe.xadd(f"{{chasqui:{queue}}}:events", event)
        pipe.execute()


def _chunks(rows: int, size: int) -> Iterator[range]:
    for start in range(0, rows, size):
        yield range(start, min(rows, start + size))


def read_ratio(spark: SparkSession, client: redis.Redis, url: str, rows: int, repeat: int) -> dict[str, Any]:
    """Ours against a Python data source that gives tuples from a redis client's replies."""
    spark.dataSource.register(rivals.TupleSource)
    fill(client, "read", rows)
    rival = spark.read.format("tuples").option("url", url).option("key", "{chasqui:read}:events").load()
    ways = {"ours": lambda: _consume(_source(spark, url, "read")), "tuples": lambda: _consume(rival)}
    for work in ways.values():
        work()
    assert _source(spark, url, "read").count() == rival.count() == rows
    speeds = _in_turns(ways, rows, repeat)
    client.delete("{chasqui:read}:events")
    print("read", speeds, file=sys.stderr, flush=True)
    return {**speeds, "ratio": round(speeds["ours"] / speeds["tuples"], 2), "rows": rows}


def write_ratio(spark: SparkSession, client: redis.Redis, url: str, rows: int, repeat: int) -> dict[str, Any]:
    """Ours, fenced and not, against `foreachPartition` with a client's pipeline that writes the same jobs."""
    frame = _jobs(spark, rows)
    numbers = iter(range(10**6))

    def into(work: Callable[[str], None]) -> Callable[[], None]:
        def run() -> None:
            queue = f"w{next(numbers)}"
            work(queue)
            assert client.xlen(f"{{chasqui:{queue}}}:stream") == rows
            client.delete(f"{{chasqui:{queue}}}:stream")

        return run

    ways = {
        "fenced": into(lambda queue: _sink(frame, url, queue)),
        "unfenced": into(lambda queue: _sink(frame, url, queue, fence="none")),
        "foreachPartition": into(lambda queue: rivals.write_by_hand(frame, url, queue)),
    }
    for work in ways.values():
        work()
    speeds = _in_turns(ways, rows, repeat)
    print("write", speeds, file=sys.stderr, flush=True)
    return {**speeds, "ratio": round(speeds["fenced"] / speeds["foreachPartition"], 2), "rows": rows}


def one_size(spark: SparkSession, client: redis.Redis, url: str, rows: int) -> dict[str, Any]:
    """Microseconds per row, there and back."""
    fill(client, "size", rows)
    read_s = min(_timed(lambda: _consume(_source(spark, url, "size"))) for _ in range(2))
    client.delete("{chasqui:size}:events")
    write_s = _timed(lambda: _sink(_jobs(spark, rows), url, "size"))
    client.delete("{chasqui:size}:stream")
    return {"rows": rows, "read_us": round(read_s / rows * 1e6, 2), "write_us": round(write_s / rows * 1e6, 2)}


def scale_run(spark: SparkSession, client: redis.Redis, url: str, rows: int) -> dict[str, Any]:
    """Rows in, two events per job, events through bronze, silver, gold and report."""
    import tempfile

    from chasqui_engine.spark.pipeline.config import PipelineConfig
    from chasqui_engine.spark.pipeline.run import STEPS, Pipeline

    write_s = _timed(lambda: _sink(_jobs(spark, rows), url, "scale"))
    assert client.xlen("{chasqui:scale}:stream") == rows
    client.delete("{chasqui:scale}:stream")
    fill(client, "scale", 2 * rows)
    found: dict[str, Any] = {"rows": rows, "events": 2 * rows, "write_rows_per_s": round(rows / write_s)}
    with tempfile.TemporaryDirectory() as folder:
        config = PipelineConfig(queues=("scale",), out=f"file://{folder}", url=url)
        pipeline = Pipeline(spark, config, lambda text: print(text, file=sys.stderr, flush=True))
        for step in STEPS:
            seconds = _timed(lambda step=step: pipeline.run((step,)))  # type: ignore[misc]
            found[f"{step}_s"] = round(seconds, 1)
        summary = pipeline.report()
        assert summary["queues"]["scale"]["totals"]["completed"] == rows
    found["events_per_s"] = round(2 * rows / sum(found[f"{step}_s"] for step in STEPS))
    found["server_peak_mb"] = round(int(client.info("memory")["used_memory_peak"]) / 1e6)
    found["driver_python_peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
    found["jvm_peak_mb"] = _jvm_peak_mb(spark)
    return found


def _jvm_peak_mb(spark: SparkSession) -> int:
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmHWM"))) // 1000


def _bars(figures: dict[str, Any]) -> bool:
    sizes = figures["sizes"]
    flat = all(sizes[-1][kind] <= FLAT_BAR * sizes[0][kind] for kind in ("read_us", "write_us")) if sizes else True
    told = {
        f"read {figures['read']['ratio']} × (bar {READ_BAR})": figures["read"]["ratio"] >= READ_BAR,
        f"fenced write {figures['write']['ratio']} × (bar {WRITE_BAR})": figures["write"]["ratio"] >= WRITE_BAR,
        "cost per row does not grow": flat,
    }
    for text, held in told.items():
        print(f"{'held  ' if held else 'MISSED'} {text}")
    return all(told.values())


if __name__ == "__main__":
    sys.exit(main())
