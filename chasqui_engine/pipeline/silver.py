"""Silver: attempts, kept by the day of the first event of their job.

Every run selects the jobs that new events are about, merges these events into their rows, and writes new folders for
the days they are in. A folder is never changed: the manifest names the folder of each day, and is replaced in one step
together with the number of the last batch that was read. A crash before that leaves a folder that no manifest names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline import attempts, bronze
from chasqui_engine.pipeline.bronze import Progress
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.windows import day_of
from chasqui_engine.values.errors import ConfigError

_MANIFEST = ("silver", "manifest.json")
_FORMAT = 2
"""Of the rows."""
Manifest = dict[str, Any]


def read_manifest(store: Files) -> Manifest:
    """What silver holds: its version, the last batch read of each queue, the folder and span of each day, and in which
    version each day of the metrics was last touched."""
    manifest = store.read_json(*_MANIFEST) or {"format": _FORMAT, "version": 0, "taken": {}, "days": {}, "touched": {}}
    if manifest.get("format") != _FORMAT:
        raise ConfigError(
            f"out: silver in {store.root!r} was written by another version of Chasqui. Delete its folders silver, gold "
            "and report; the next run rebuilds them from bronze"
        )
    return manifest


def read(spark: SparkSession, store: Files, current: Manifest, days: Sequence[str] | None = None) -> DataFrame:
    """Silver, or some of its days (as the manifest names them)."""
    columns = ", ".join(f"{name} {kind}" for name, kind in attempts.COLUMNS.items())
    names = current["days"] if days is None else [day for day in days if day in current["days"]]
    folders = [store.path(*current["days"][name]["folder"]) for name in names]
    if not folders:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).parquet(*folders)


def update(spark: SparkSession, store: Files, config: PipelineConfig, progress: Progress) -> Manifest:
    """Merges what is new in bronze; changes nothing when nothing is."""
    current = read_manifest(store)
    for queue in config.queues:
        complete = bronze.last_complete_batch(store, queue, "events")
        taken = current["taken"].get(queue, -1)
        if complete > taken:
            current = _merge_batches(spark, store, current, queue, taken, complete)
            progress(f"silver  {queue}: batches {taken + 1} to {complete}, {current['rows']:,} attempts rebuilt")
    return current


def _merge_batches(
    spark: SparkSession, store: Files, current: Manifest, queue: str, taken: int, complete: int
) -> Manifest:
    new = attempts.select_job_events(bronze.read(spark, store, "events", queue, after=taken, up_to=complete))
    touched = new.select("queue", "job_key").distinct().persist(StorageLevel.DISK_ONLY)
    mine = [name for name in current["days"] if name.rpartition("/")[0] == queue]
    known = read(spark, store, current, mine).join(touched, ["queue", "job_key"], "left_semi")
    known = known.persist(StorageLevel.DISK_ONLY)
    rebuilt = attempts.build_attempts(known, new).persist(StorageLevel.DISK_ONLY)
    try:
        if touched.isEmpty():  # nothing about jobs in these batches
            result = {**current, "version": current["version"] + 1, "rows": 0}
        else:
            result = _write(spark, store, current, queue, touched, known, rebuilt)
    finally:
        for frame in (touched, known, rebuilt):
            frame.unpersist()
    result["taken"] = {**current["taken"], queue: complete}
    store.write_json(result, *_MANIFEST)
    _sweep(store, current, result)
    return result


def _write(
    spark: SparkSession,
    store: Files,
    current: Manifest,
    queue: str,
    touched: DataFrame,
    known: DataFrame,
    rebuilt: DataFrame,
) -> Manifest:
    version = current["version"] + 1
    days = _count_by_day(known.withColumn("new", F.lit(0)).unionByName(rebuilt.withColumn("new", F.lit(1)))).collect()
    names = [f"{queue}/{row.day}" for row in days if row.homes]
    untouched = read(spark, store, current, names).join(touched, ["queue", "job_key"], "left_anti")
    folder = ("silver", "days", f"v={version}", bronze.folder_name(queue))
    frame = untouched.unionByName(rebuilt).withColumn("home", F.col("day"))
    frame.repartition("home").write.mode("overwrite").partitionBy("home").parquet(store.path(*folder))
    spans = spark.read.parquet(store.path(*folder)).groupBy("day").agg(*_span())
    kept = {name: day for name, day in current["days"].items() if name not in names}
    for row in spans.collect():
        kept[f"{queue}/{row.day}"] = {
            "folder": [*folder, f"home={row.day}"],
            "first": row.first,
            "last": row.last,
            "rows": row.rows,
        }
    return {
        "format": _FORMAT,
        "version": version,
        "taken": current["taken"],
        "days": kept,
        "touched": {**current["touched"], **{f"{queue}/{row.day}": version for row in days if row.answers}},
        "rows": sum(row.rebuilt for row in days),
    }


def _times() -> list[str]:
    return ["arrived_at", "active_at", "finished_at", "departed_at"]


def _span() -> list[Any]:
    days = [day_of(column) for column in _times()]
    return [
        F.min(F.least("day", *days)).alias("first"),
        F.max(F.greatest("day", *days)).alias("last"),
        F.count("*").alias("rows"),
    ]


def _count_by_day(frame: DataFrame) -> DataFrame:
    """The days under which rows are kept (`homes`; how many are new), and those whose metrics they are part of."""
    home = F.struct(F.col("day").alias("day"), F.lit(1).alias("home"), F.col("new").alias("new"))
    times = [
        F.struct(day_of(column).alias("day"), F.lit(0).alias("home"), F.lit(0).alias("new")) for column in _times()
    ]
    each = frame.select(F.explode(F.array(home, *times)).alias("at")).select("at.*").where("day is not null")
    sums = [F.sum("home").alias("homes"), F.sum("new").alias("rebuilt"), F.sum(1 - F.col("home")).alias("answers")]
    return each.groupBy("day").agg(*sums)


def _sweep(store: Files, before: Manifest, now: Manifest) -> None:
    """Removes folders that neither this manifest nor the one before names: a reader may still have the latter."""
    used = {day["folder"][2] for manifest in (before, now) for day in manifest["days"].values()}
    for name in store.list_folders("silver", "days"):
        if name not in used and int(name.removeprefix("v=")) < now["version"]:
            store.remove("silver", "days", name)
