"""Silver: attempts, kept by the day on which their job was first heard of.

Every run takes the jobs that new events speak of, merges what these tell into their rows, and writes the days they
are in anew. A day's folder is never changed: the manifest says which folder is a day's, and is replaced in one
step together with the number of the last batch that was taken in. A crash before that leaves a folder nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline import attempts, bronze
from chasqui_engine.pipeline.bronze import Say
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.windows import day_of

_MANIFEST = ("silver", "manifest.json")
Manifest = dict[str, Any]
Day = tuple[str, str]
"""A queue and a day."""


def manifest(store: Files) -> Manifest:
    """What silver holds: its version, the last batch taken of each queue, the folder and span of each day, and in which
    version each day of the answers was last touched."""
    return store.read_json(*_MANIFEST) or {"version": 0, "taken": {}, "days": {}, "touched": {}}


def read(spark: SparkSession, store: Files, held: Manifest, days: Sequence[str] | None = None) -> DataFrame:
    """Silver, or some of its days (as the manifest names them)."""
    columns = ", ".join(f"{name} {kind}" for name, kind in attempts.COLUMNS.items())
    names = held["days"] if days is None else [day for day in days if day in held["days"]]
    folders = [store.path(*held["days"][name]["folder"]) for name in names]
    if not folders:
        return spark.createDataFrame([], columns)
    return spark.read.schema(columns).parquet(*folders)


def update(spark: SparkSession, store: Files, config: PipelineConfig, say: Say) -> Manifest:
    """Takes in what is new in bronze; changes nothing when nothing is."""
    held = manifest(store)
    for queue in config.queues:
        whole = bronze.last_whole(store, queue, "events")
        taken = held["taken"].get(queue, -1)
        if whole > taken:
            held = _take_in(spark, store, held, queue, taken, whole)
            say(f"silver  {queue}: batches {taken + 1} to {whole}, {held['rows']:,} attempts made anew")
    return held


def _take_in(spark: SparkSession, store: Files, held: Manifest, queue: str, taken: int, whole: int) -> Manifest:
    new = attempts.about_jobs(bronze.read(spark, store, "events", queue, after=taken, up_to=whole))
    touched = new.select("queue", "job_key").distinct().persist(StorageLevel.DISK_ONLY)
    mine = [name for name in held["days"] if name.rpartition("/")[0] == queue]
    known = read(spark, store, held, mine).join(touched, ["queue", "job_key"], "left_semi")
    known = known.persist(StorageLevel.DISK_ONLY)
    rebuilt = attempts.build(known, new).persist(StorageLevel.DISK_ONLY)
    try:
        if touched.isEmpty():  # nothing about jobs in these batches
            result = {**held, "version": held["version"] + 1, "rows": 0}
        else:
            result = _write(spark, store, held, queue, touched, known, rebuilt)
    finally:
        for frame in (touched, known, rebuilt):
            frame.unpersist()
    result["taken"] = {**held["taken"], queue: whole}
    store.write_json(result, *_MANIFEST)
    _sweep(store, held, result)
    return result


def _write(
    spark: SparkSession,
    store: Files,
    held: Manifest,
    queue: str,
    touched: DataFrame,
    known: DataFrame,
    rebuilt: DataFrame,
) -> Manifest:
    version = held["version"] + 1
    told = _days_of(known.withColumn("new", F.lit(0)).unionByName(rebuilt.withColumn("new", F.lit(1)))).collect()
    names = [f"{queue}/{row.day}" for row in told if row.homes]
    untouched = read(spark, store, held, names).join(touched, ["queue", "job_key"], "left_anti")
    folder = ("silver", "days", f"v={version}", bronze.folder_of(queue))
    frame = untouched.unionByName(rebuilt).withColumn("home", F.col("day"))
    frame.repartition("home").write.mode("overwrite").partitionBy("home").parquet(store.path(*folder))
    spans = spark.read.parquet(store.path(*folder)).groupBy("day").agg(*_span())
    kept = {name: day for name, day in held["days"].items() if name not in names}
    for row in spans.collect():
        kept[f"{queue}/{row.day}"] = {
            "folder": [*folder, f"home={row.day}"],
            "first": row.first,
            "last": row.last,
            "rows": row.rows,
        }
    return {
        "version": version,
        "taken": held["taken"],
        "days": kept,
        "touched": {**held["touched"], **{f"{queue}/{row.day}": version for row in told if row.answers}},
        "rows": sum(row.rebuilt for row in told),
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


def _days_of(frame: DataFrame) -> DataFrame:
    """The days under which rows are kept (`homes`; how many are new), and those whose answers they are part of."""
    home = F.struct(F.col("day").alias("day"), F.lit(1).alias("home"), F.col("new").alias("new"))
    times = [
        F.struct(day_of(column).alias("day"), F.lit(0).alias("home"), F.lit(0).alias("new")) for column in _times()
    ]
    each = frame.select(F.explode(F.array(home, *times)).alias("at")).select("at.*").where("day is not null")
    sums = [F.sum("home").alias("homes"), F.sum("new").alias("rebuilt"), F.sum(1 - F.col("home")).alias("answers")]
    return each.groupBy("day").agg(*sums)


def _sweep(store: Files, before: Manifest, now: Manifest) -> None:
    """Removes folders that neither this manifest nor the one before knows: somebody may still read the latter's."""
    used = {day["folder"][2] for held in (before, now) for day in held["days"].values()}
    for name in store.folders("silver", "days"):
        if name not in used and int(name.removeprefix("v=")) < now["version"]:
            store.remove("silver", "days", name)
