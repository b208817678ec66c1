"""Bronze: events and dead letters as they are, in Parquet by queue, day and batch.

A micro-batch that comes again, after a crash, replaces the folders it wrote before. That a batch is complete is
recorded last, so that the next steps never see half of one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.windows import LAST_MS, day_of
from chasqui_engine.spark.schemas import ddl

_PARTITIONS = "day string, batch string"
Progress = Callable[[str], None]
"""Called with a line for people after each step."""


def folder_name(queue: str) -> str:
    """A queue's name as the name of a folder."""
    return quote(queue, safe=" ")


def batch_name(number: int) -> str:
    """Batches sort by their names."""
    return f"{number:012d}"


def start(
    spark: SparkSession,
    store: Files,
    config: PipelineConfig,
    queue: str,
    entity: str,
    *,
    continuous: bool,
    progress: Progress,
) -> StreamingQuery:
    """Starts the stream of one queue's entity into bronze."""
    options = {"queue": queue, "entity": entity, "maxRowsPerTrigger": str(config.max_rows_per_batch)}
    options["failOnDataLoss"] = str(config.fail_on_data_loss).lower()
    frame = spark.readStream.format("chasqui").options(**options, **config.source_options).load()

    def keep(batch: DataFrame, number: int) -> None:
        rows = write_batch(store, queue, entity, batch, number)
        progress(f"bronze  {queue} {entity}: batch {number}, {rows:,} rows")

    checkpoint = store.path("checkpoints", entity, folder_name(queue))
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    return (writer.trigger(processingTime="10 seconds") if continuous else writer.trigger(availableNow=True)).start()


def write_batch(store: Files, queue: str, entity: str, batch: DataFrame, number: int) -> int:
    """Puts one batch into bronze; the same batch again replaces it."""
    when = F.col("ts") if entity == "events" else F.col("died_at")
    ms = F.split_part("entry_id", F.lit("-"), F.lit(1)).try_cast("bigint")
    # Each part of an id is any number of 64 bits.
    known = F.coalesce(when, F.timestamp_millis(F.when(ms <= LAST_MS, ms)), F.timestamp_millis(F.lit(0)))
    frame = batch.drop("queue").withColumn("day", day_of(known))
    if entity == "events":
        frame = frame.withColumn("ts", known)
    frame = frame.withColumn("batch", F.lit(batch_name(number))).persist()
    try:
        rows = frame.count()
        if rows:
            writer = frame.repartition("day").sortWithinPartitions("entry_id").write.mode("overwrite")
            writer = writer.option("partitionOverwriteMode", "dynamic").partitionBy("day", "batch")
            writer.parquet(store.path("bronze", entity, folder_name(queue)))
    finally:
        frame.unpersist()
    store.write_json({"batch": number}, "bronze", "_whole", entity, f"{folder_name(queue)}.json")
    return rows


def last_complete_batch(store: Files, queue: str, entity: str) -> int:
    """The number of the last complete batch; -1 if there is none."""
    found = store.read_json("bronze", "_whole", entity, f"{folder_name(queue)}.json")
    return -1 if found is None else int(found["batch"])


def read(spark: SparkSession, store: Files, entity: str, queue: str, *, up_to: int, after: int = -1) -> DataFrame:
    """One queue's bronze: the batches after one, up to another."""
    columns = ddl(entity).replace("`queue` string, ", "", 1) + ", " + _PARTITIONS
    path = store.path("bronze", entity, folder_name(queue))
    if not store.exists("bronze", entity, folder_name(queue)):
        frame = spark.createDataFrame([], columns)
    else:
        frame = spark.read.schema(columns).parquet(path)
    within = (F.col("batch") > batch_name(after)) if after >= 0 else F.lit(True)
    return frame.where(within & (F.col("batch") <= batch_name(up_to))).withColumn("queue", F.lit(queue))


def compact(spark: SparkSession, store: Files, entity: str, queue: str, *, processed: int, after: int) -> int:
    """Merges the batches of a day that has many. A crash leaves rows twice, and every reader takes each once."""
    done = 0
    columns = ddl(entity).replace("`queue` string, ", "", 1)
    for day in store.list_folders("bronze", entity, folder_name(queue)):
        names = store.list_folders("bronze", entity, folder_name(queue), day)
        old = _up_to(processed, names)
        if len(old) <= after:
            continue
        base = ("bronze", entity, folder_name(queue), day)
        frame = spark.read.schema(columns).parquet(*(store.path(*base, name) for name in old))
        temporary = ("bronze", "_compacting", entity, folder_name(queue), day)
        frame.dropDuplicates(["entry_id"]).coalesce(1).sortWithinPartitions("entry_id").write.mode("overwrite").parquet(
            store.path(*temporary)
        )
        # It sorts between the first of them and the second, so that it counts for the same batches. A crash may have
        # left a folder of that name.
        together = f"{old[0]}c"
        while together in old:
            together += "c"
        store.move(temporary, (*base, together))
        for name in old:
            store.remove(*base, name)
        done += 1
    return done


def expire(store: Files, entity: str, queue: str, today: str, keep_days: int, *, processed: int) -> int:
    """Removes days before the last `keep_days` that silver has read. Silver and gold keep their rows."""
    oldest = (date.fromisoformat(today) - timedelta(days=keep_days - 1)).isoformat()
    base = ("bronze", entity, folder_name(queue))
    gone = 0
    for day in [name for name in store.list_folders(*base) if name < f"day={oldest}"]:
        batches = store.list_folders(*base, day)
        old = _up_to(processed, batches)
        if len(old) == len(batches):
            store.remove(*base, day)
            gone += 1
            continue
        for name in old:
            store.remove(*base, day, name)
    return gone


def _up_to(processed: int, batches: list[str]) -> list[str]:
    return [name for name in batches if processed >= 0 and name <= f"batch={batch_name(processed)}"]
