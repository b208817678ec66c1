"""Spark programs that tests run in processes of their own: python -m tests.spark.integration.driver <name> <JSON>."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import redis
from pyspark import TaskContext
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.redrive import plan_redrive
from chasqui_engine.pipeline.run import Pipeline
from chasqui_engine.spark.java import use_java
from chasqui_engine.spark.session import start_session
from chasqui_engine.values.errors import ConfigError
from tests.spark.integration.conftest import run_to_end

SETTINGS = {"spark.log.level": "ERROR", "spark.sql.execution.arrow.maxRecordsPerBatch": "100"}
_STUCK_S = 300


def follow(url: str, queue: str, target: str, checkpoint: str, rate: int) -> None:
    """A stream of events, each made a job of another queue, at most so many a second."""
    spark = start_session("local[2]", quick=True, settings=SETTINGS)
    frame = spark.readStream.format("chasqui").options(url=url, queue=queue, maxRowsPerTrigger="400").load()
    jobs = frame.select(F.lit("follow").alias("name"), F.struct("job_id").alias("payload"))
    sink = jobs.writeStream.format("chasqui").options(url=url, queue=target, chunkSize="20", maxRowsPerSecond=str(rate))
    run_to_end(sink.option("checkpointLocation", checkpoint))
    spark.stop()


def count(url: str, queue: str) -> None:
    """Says how many events there are, and which Java read them."""
    spark = start_session("local[2]", quick=True, settings=SETTINGS)
    events = spark.read.format("chasqui").options(url=url, queue=queue).load().count()
    print(json.dumps({"events": events, "java": spark._jvm.java.lang.System.getProperty("java.home")}))
    spark.stop()


def speculate(master: str, url: str, queue: str, rows: int, partitions: int) -> None:
    """A write of which one task's first attempt stops half-way, for longer than Spark has patience."""
    patience = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.25",
        "spark.speculation.minTaskRuntime": "100ms",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
    }
    spark = start_session(master, quick=True, settings={**SETTINGS, **patience})

    def slow_once(batches: Iterator[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        partition, attempt = context.partitionId(), context.attemptNumber()
        with redis.Redis.from_url(url) as client:
            for number, batch in enumerate(batches):
                if partition == 1 and attempt == 0 and number == 2:
                    client.rpush(f"{queue}:slow", "first")
                    time.sleep(_STUCK_S)
                yield batch
            client.rpush(f"{queue}:done", f"{partition}.{attempt}")

    frame = spark.range(0, rows, 1, partitions).select(F.lit("n").alias("name"), F.struct("id").alias("payload"))
    frame = frame.mapInArrow(slow_once, frame.schema)
    frame.write.format("chasqui").options(url=url, queue=queue, chunkSize="50").mode("append").save()
    spark.stop()


def everything(master: str, url: str, queue: str, out: str, settings: dict[str, str]) -> None:
    """Source, sink, a stream and the pipeline on a cluster; says what they found, and which hosts worked."""
    spark = start_session(master, quick=True, settings={**SETTINGS, "spark.driver.host": "127.0.0.1", **settings})
    try:
        read = spark.read.format("chasqui").options(url=url, queue=queue, minPartitions="4").load()
        processes = read.select(F.spark_partition_id()).distinct().count()
        rows = spark.range(0, 400, 1, 4).select(F.lit("n").alias("name"), F.struct("id").alias("payload"))
        rows.write.format("chasqui").options(url=url, queue=f"{queue}-sink", chunkSize="50").mode("append").save()
        frame = spark.readStream.format("chasqui").options(url=url, queue=queue, maxRowsPerTrigger="400").load()
        jobs = frame.select(F.lit("follow").alias("name"), F.struct("job_id").alias("payload"))
        sink = jobs.writeStream.format("chasqui").options(url=url, queue=f"{queue}-stream")
        run_to_end(sink.option("checkpointLocation", f"{out}/checkpoint"))
        summary = Pipeline(spark, PipelineConfig(queues=(queue,), out=f"file://{out}/pipeline", url=url)).run()
        completed = summary["queues"][queue]["totals"]["completed"] if summary else 0
        print(json.dumps({"events": read.count(), "partitions": processes, "completed": completed}))
    finally:
        spark.stop()


def read_once(master: str, queue: str, settings: dict[str, str], **options: str) -> None:
    """Counts events by reading every row in a task."""
    spark = start_session(master, quick=True, settings={**SETTINGS, "spark.driver.host": "127.0.0.1", **settings})
    try:
        print(json.dumps({"events": spark.read.format("chasqui").options(queue=queue, **options).load().count()}))
    finally:
        spark.stop()


def connect(url: str, queue: str, out: str) -> None:
    """The same with a client of Spark Connect, and a server that it starts; says what works."""
    from pyspark.sql import SparkSession

    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    try:
        read = spark.read.format("chasqui").options(url=url, queue=queue).load()
        rows = spark.range(0, 100, 1, 2).select(F.lit("n").alias("name"), F.struct("id").alias("payload"))
        rows.write.format("chasqui").options(url=url, queue=f"{queue}-sink").mode("append").save()
        frame = spark.readStream.format("chasqui").options(url=url, queue=queue).load()
        jobs = frame.select(F.lit("follow").alias("name"), F.struct("job_id").alias("payload"))
        sink = jobs.writeStream.format("chasqui").options(url=url, queue=f"{queue}-stream")
        run_to_end(sink.option("checkpointLocation", f"{out}/checkpoint"))
        try:
            Pipeline(spark, PipelineConfig(queues=(queue,), out=f"file://{out}/pipeline", url=url))
        except ConfigError as err:
            refused = str(err)
        dead = plan_redrive(spark, queue, where="name = 'x'", options={"url": url}).selected
        kind = type(spark).__module__
        print(json.dumps({"events": read.count(), "dead": dead, "refused": refused, "session": kind}))
    finally:
        spark.stop()


if __name__ == "__main__":
    programs = {
        "follow": follow,
        "count": count,
        "speculate": speculate,
        "everything": everything,
        "read_once": read_once,
        "connect": connect,
    }
    programs[sys.argv[1]](**json.loads(sys.argv[2]))
