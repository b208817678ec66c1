"""Gold: per queue, name and window, what can be added up (counts, sketches); and from that the answers.

`windows` is what adds up: counts, and sketches of latencies that can be merged over names and windows. It is kept by
day, and only days that silver touched are made anew. `metrics` is derived from all windows: rates, percentiles,
backlog, comparison with the window before, breaches. It is small, and made anew whenever a window changed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.spark.pipeline import silver
from chasqui_engine.spark.pipeline.bronze import Say, folder_of
from chasqui_engine.spark.pipeline.config import PipelineConfig
from chasqui_engine.spark.pipeline.slo import Slo, breaches
from chasqui_engine.spark.pipeline.store import Store

_MANIFEST = ("gold", "manifest.json")
_COUNTS = ("arrived", "started", "completed", "failed", "retried", "dead", "departed", "partial")
_WINDOWS = (
    "queue string, name string, window_start timestamp, "
    + ", ".join(f"{name} bigint" for name in _COUNTS)
    + ", latency_sketch binary, handler_sketch binary, day string"
)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def manifest(store: Store) -> dict[str, Any]:
    """What gold holds: the version of silver it was made of, the window, and the folder of each day."""
    return store.read_json(*_MANIFEST) or {"version": 0, "silver": 0, "window_s": 0, "days": {}, "slos": []}


def update(spark: SparkSession, store: Store, config: PipelineConfig, slos: list[Slo], say: Say) -> dict[str, Any]:
    """Makes anew what silver touched; changes nothing when nothing was."""
    held, source = manifest(store), silver.manifest(store)
    rules = [slo.to_dict() for slo in slos]
    all_anew = held["window_s"] != config.window_s
    since = 0 if all_anew else held["silver"]
    stale = [name for name, version in source["touched"].items() if version > since]
    if not stale and held["silver"] == source["version"] and held["slos"] == rules:
        return held
    version = held["version"] + 1
    days = {} if all_anew else {name: path for name, path in held["days"].items() if name not in stale}
    if stale:
        days |= _write_windows(spark, store, source, stale, version, config.window_s)
    result = {"version": version, "silver": source["version"], "window_s": config.window_s, "days": days, "slos": rules}
    frame = metrics(_read_windows(spark, store, days), config.window_s, slos)
    frame.coalesce(1).write.mode("overwrite").parquet(store.path("gold", "metrics", f"v={version}"))
    store.write_json(result, *_MANIFEST)
    _sweep(store, held, result)
    say(f"gold    {len(stale)} days made anew")
    return result


def read_metrics(spark: SparkSession, store: Store) -> DataFrame:
    """The answers, one row per queue, name (and for all names together) and window."""
    return spark.read.parquet(store.path("gold", "metrics", f"v={manifest(store)['version']}"))


def read_windows(spark: SparkSession, store: Store) -> DataFrame:
    """What adds up: counts and sketches."""
    return _read_windows(spark, store, manifest(store)["days"])


def _read_windows(spark: SparkSession, store: Store, days: dict[str, list[str]]) -> DataFrame:
    folders = [store.path(*folder) for folder in days.values()]
    return spark.read.schema(_WINDOWS).parquet(*folders) if folders else spark.createDataFrame([], _WINDOWS)


def _write_windows(
    spark: SparkSession, store: Store, source: dict[str, Any], stale: list[str], version: int, window_s: int
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for queue in sorted({name.rpartition("/")[0] for name in stale}):
        wanted = {name.rpartition("/")[2] for name in stale if name.rpartition("/")[0] == queue}
        homes = [
            name
            for name, day in source["days"].items()
            if name.rpartition("/")[0] == queue and any(day["first"] <= one <= day["last"] for one in wanted)
        ]
        rows = windows(silver.read(spark, store, source, homes), window_s).where(F.col("day").isin(*wanted))
        folder = ("gold", "days", f"v={version}", folder_of(queue))
        frame = rows.withColumn("home", F.col("day")).coalesce(1)
        frame.write.mode("overwrite").partitionBy("home").parquet(store.path(*folder))
        found |= {f"{queue}/{name.removeprefix('home=')}": [*folder, name] for name in store.folders(*folder)}
    return found


def windows(attempts: DataFrame, window_s: int) -> DataFrame:
    """Attempts as counts and sketches per queue, name and window. Each time of a row counts in its own window."""
    name = F.coalesce("name", F.lit("")).alias("name")

    def facts(at: str, **values: Column) -> DataFrame:
        empty = {column: F.lit(0) for column in _COUNTS} | {"latency": F.lit(None), "handler": F.lit(None)}
        filled = {**empty, **values}
        columns = [filled[column].cast("bigint").alias(column) for column in empty]
        return attempts.where(F.col(at).isNotNull()).select("queue", name, F.col(at).alias("at"), *columns)

    def is_status(status: str) -> Column:
        return (F.col("status") == status).cast("int")

    rows = (
        facts("arrived_at", arrived=F.lit(1))
        .unionByName(facts("active_at", started=F.lit(1), latency=F.col("queue_latency_ms")))
        .unionByName(facts("departed_at", departed=F.lit(1)))
        .unionByName(
            facts(
                "finished_at",
                completed=is_status("completed"),
                # A death is a failure that was not retried.
                failed=is_status("failed") + is_status("dead"),
                retried=((F.col("status") == "failed") & F.col("retried")).cast("int"),
                dead=is_status("dead"),
                partial=F.col("partial").cast("int"),
                handler=F.col("handler_us"),
            )
        )
    )
    starts = F.timestamp_seconds(F.floor(F.unix_seconds("at") / window_s) * window_s)
    counts = [F.sum(column).alias(column) for column in _COUNTS]
    sketches = [_sketch(F.col("latency")).alias("latency_sketch"), _sketch(F.col("handler")).alias("handler_sketch")]
    frame = rows.groupBy("queue", "name", starts.alias("window_start")).agg(*counts, *sketches)
    return frame.withColumn("day", F.date_format("window_start", "yyyy-MM-dd"))


def _sketch(values: Column) -> Column:
    return F.when(F.count(values) > 0, F.kll_sketch_agg_bigint(values))


def merged(frame: DataFrame, *by: str) -> DataFrame:
    """Windows put together: counts added, sketches merged."""
    sketches = [
        F.when(F.count(column) > 0, F.kll_merge_agg_bigint(column)).alias(column)
        for column in ("latency_sketch", "handler_sketch")
    ]
    return frame.groupBy(*by).agg(*(F.sum(column).alias(column) for column in _COUNTS), *sketches)


def with_answers(frame: DataFrame, seconds: Column | float) -> DataFrame:
    """Rates and percentiles from counts and sketches."""
    finished = F.col("completed") + F.col("failed")
    columns = {
        "throughput_per_s": F.col("completed") / F.lit(seconds)
        if isinstance(seconds, float)
        else F.col("completed") / seconds,
        "success_rate": _rate("completed", finished),
        "failure_rate": _rate("failed", finished),
        "retry_rate": _rate("retried", finished),
        "dead_rate": _rate("dead", finished),
    }
    for label, rank in QUANTILES.items():
        columns[f"latency_{label}_ms"] = _quantile("latency_sketch", rank)
        columns[f"handler_{label}_ms"] = _quantile("handler_sketch", rank) / 1000
    return frame.withColumns(columns)


def _rate(column: str, of: Column) -> Column:
    return F.when(of > 0, F.col(column) / of)


def _quantile(column: str, rank: float) -> Column:
    return F.when(F.col(column).isNotNull(), F.kll_sketch_get_quantile_bigint(column, F.lit(rank)))


def metrics(frame: DataFrame, window_s: int, slos: list[Slo]) -> DataFrame:
    """The answers: of each name, and of each queue as a whole (`scope` tells them apart)."""
    by_name = frame.drop("day").withColumn("scope", F.lit("name"))
    whole = merged(frame, "queue", "window_start").withColumns({"name": F.lit(""), "scope": F.lit("queue")})
    rows = with_answers(by_name.unionByName(whole), float(window_s))
    line = Window.partitionBy("queue", "scope", "name").orderBy("window_start")
    earlier = line.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    rows = rows.withColumn("backlog", F.sum(F.col("arrived") - F.col("departed")).over(earlier))
    for column in ("throughput_per_s", "failure_rate", "latency_p95_ms", "handler_p95_ms"):
        rows = rows.withColumn(f"{column}_change", F.col(column) - F.lag(column).over(line))
    rows = rows.withColumn("window_end", F.col("window_start") + F.make_dt_interval(secs=F.lit(window_s)))
    return breaches(rows.drop("latency_sketch", "handler_sketch"), slos)


def _sweep(store: Store, before: dict[str, Any], now: dict[str, Any]) -> None:
    used = {folder[2] for held in (before, now) for folder in held["days"].values()}
    versions = {f"v={held['version']}" for held in (before, now)}
    for name in store.folders("gold", "days"):
        if name not in used and int(name.removeprefix("v=")) < now["version"]:
            store.remove("gold", "days", name)
    for name in store.folders("gold", "metrics"):
        if name not in versions:
            store.remove("gold", "metrics", name)
