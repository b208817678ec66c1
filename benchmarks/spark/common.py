"""What the Spark measurements share: a session, events to read, rows to write, and a clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator

import redis
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.spark.session import start_session

DRIVER_MEMORY = "3g"
NO_LIMIT = str(10**9)


def session() -> SparkSession:
    settings = {"spark.ui.enabled": "false", "spark.driver.memory": DRIVER_MEMORY, "spark.log.level": "ERROR"}
    cores = os.cpu_count() or 2
    return start_session(f"local[{cores}]", settings={**settings, "spark.sql.shuffle.partitions": str(2 * cores)})


def source(spark: SparkSession, url: str, queue: str) -> DataFrame:
    return spark.read.format("chasqui").options(url=url, queue=queue, entity="events").load()


def jobs(spark: SparkSession, rows: int) -> DataFrame:
    frame = spark.range(0, rows, 1, os.cpu_count() or 2)
    text = F.concat(F.lit('{"user":'), F.col("id").cast("string"), F.lit(',"template":"welcome","locale":"en"}'))
    name = F.concat(F.lit("name-"), (F.col("id") % 7).cast("string"))
    return frame.select(name.alias("name"), text.alias("payload"))


def write(frame: DataFrame, url: str, queue: str, **options: str) -> None:
    settings = {"url": url, "queue": queue, "maxStreamLen": NO_LIMIT, **options}
    frame.write.format("chasqui").options(**settings).mode("append").save()


def read_all(frame: DataFrame) -> None:
    """Every column of every row is made, and nothing done with it."""
    frame.write.format("noop").mode("overwrite").save()


def time_it(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def fill(client: redis.Redis, queue: str, rows: int) -> None:
    """Events as a worker tells them: two per job."""
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
