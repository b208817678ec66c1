"""A task that runs twice at the same time, as Spark's speculation does."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap

import pyarrow as pa
import pytest
import redis

from chasqui_engine.spark.fetch import Place
from chasqui_engine.spark.options import write_options
from chasqui_engine.spark.writer import Target, write_partition

ROWS = 3000


def run_copy(url: str, queue: str, start: object) -> None:
    """What a copy of a task does: the same rows, the same write."""
    options = write_options({"queue": queue, "chunkSize": "50"})
    target = Target(place=Place(url=url, queue=queue), options=options, fenced=True, by_id=False)
    batch = pa.RecordBatch.from_pydict({"name": ["n"] * ROWS, "payload": [str(n) for n in range(ROWS)]})
    start.wait(30)  # type: ignore[attr-defined]
    written = write_partition(target, "one-write", 0, iter([batch]))
    assert written.rows == ROWS


def test_copies_of_a_task_at_the_same_time_add_each_row_once(valkey_url: str, queue_name: str) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(3)
    copies = [context.Process(target=run_copy, args=(valkey_url, queue_name, start)) for _ in range(3)]
    for copy in copies:
        copy.start()
    for copy in copies:
        copy.join(60)
        assert copy.exitcode == 0
    with redis.Redis.from_url(valkey_url) as client:
        assert client.xlen(f"{{chasqui:{queue_name}}}:stream") == ROWS


PROGRAM = """
    import sys, time
    from pyspark.sql import SparkSession, functions as F

    url, queue = sys.argv[1:]

    def slow_once(batches):
        from pyspark import TaskContext
        context = TaskContext.get()
        for batch in batches:
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                time.sleep(3)
            yield batch

    conf = {
        "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5", "spark.speculation.minTaskRuntime": "100ms",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "200", "spark.ui.enabled": "false", "spark.log.level": "OFF",
        "spark.executor.memory": "512m", "spark.task.maxFailures": "4",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("speculation")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    frame = spark.range(0, 2000, 1, 2).select(F.lit("n").alias("name"), F.struct("id").alias("payload"))
    frame = frame.mapInPandas(slow_once, "name string, payload struct<id:bigint>")
    writer = frame.write.format("chasqui").option("url", url).option("queue", queue).option("chunkSize", "100")
    writer.mode("append").save()
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(n) for job in tracker.getJobIdsForGroup() for n in tracker.getJobInfo(job).stageIds]
    print("COPIES", max(s.numActiveTasks + s.numCompletedTasks + s.numFailedTasks for s in stages if s) - 2)
    spark.stop()
"""


@pytest.mark.soak
def test_speculation_on_executors_of_their_own(valkey_url: str, queue_name: str) -> None:
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    env["PYTHONPATH"] = os.pathsep.join([os.getcwd(), env.get("PYTHONPATH", "")])
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), valkey_url, queue_name]
    done = subprocess.run(program, capture_output=True, text=True, timeout=150, env=env, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    with redis.Redis.from_url(valkey_url) as client:
        assert client.xlen(f"{{chasqui:{queue_name}}}:stream") == 2000
    assert int(done.stdout.split("COPIES")[1]) >= 1, "a copy of the slow task ran as well"
