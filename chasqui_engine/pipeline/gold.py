"""Gold: per queue, name and window, what can be added up (counts, sketches); and from that the answers.

`days` is what adds up. It is kept by day, and only days that silver touched are made anew. `metrics` is derived from
all windows, and judged by what was promised. It is small, and made anew whenever a window changed, or one has ended
since that could not be judged before.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline import aggregates, silver, slo_evaluation
from chasqui_engine.pipeline.bronze import Say, folder_of
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.slo import Slo

_MANIFEST = ("gold", "manifest.json")
_EMPTY: dict[str, Any] = {"version": 0, "silver": 0, "window_s": 0, "days": {}, "slos": [], "open_until": None}


def manifest(store: Files) -> dict[str, Any]:
    """What gold holds: the version of silver it was made of, the window, the folder of each day, the promises, and
    when the first window ends that was still open."""
    return store.read_json(*_MANIFEST) or _EMPTY


def update(
    spark: SparkSession, store: Files, config: PipelineConfig, slos: list[Slo], now_s: float, say: Say
) -> dict[str, Any]:
    """Makes anew what silver touched; changes nothing when nothing was."""
    held, source = manifest(store), silver.manifest(store)
    rules = [slo.to_dict() for slo in slos]
    all_anew = held["window_s"] != config.window_s
    since = 0 if all_anew else held["silver"]
    stale = [name for name, version in source["touched"].items() if version > since]
    ended = held["open_until"] is not None and held["open_until"] <= now_s
    if not stale and not ended and held["silver"] == source["version"] and held["slos"] == rules:
        return held
    version = held["version"] + 1
    days = {} if all_anew else {name: path for name, path in held["days"].items() if name not in stale}
    if stale:
        days |= _write_windows(spark, store, source, stale, version, config.window_s)
    result = {"version": version, "silver": source["version"], "window_s": config.window_s, "days": days, "slos": rules}
    rows = aggregates.metrics(_read_windows(spark, store, days), config.window_s)
    known = _read_metrics(spark, store, held["version"]) if held["version"] and not all_anew else None
    judged = slo_evaluation.known_since(slo_evaluation.evaluate(rows, slos, now_s), known, version)
    judged.coalesce(1).write.mode("overwrite").parquet(store.path("gold", "metrics", f"v={version}"))
    result["open_until"] = _open_until(_read_metrics(spark, store, version), slos, now_s)
    store.write_json(result, *_MANIFEST)
    _sweep(store, held, result)
    say(f"gold    {len(stale)} days made anew")
    return result


def read_metrics(spark: SparkSession, store: Files) -> DataFrame:
    """The answers, one row per queue, name (and for all names together) and window."""
    return _read_metrics(spark, store, manifest(store)["version"])


def read_windows(spark: SparkSession, store: Files) -> DataFrame:
    """What adds up: counts and sketches."""
    return _read_windows(spark, store, manifest(store)["days"])


def _read_metrics(spark: SparkSession, store: Files, version: int) -> DataFrame:
    return spark.read.parquet(store.path("gold", "metrics", f"v={version}"))


def _read_windows(spark: SparkSession, store: Files, days: dict[str, list[str]]) -> DataFrame:
    folders = [store.path(*folder) for folder in days.values()]
    if not folders:
        return spark.createDataFrame([], aggregates.WINDOWS)
    return spark.read.schema(aggregates.WINDOWS).parquet(*folders)


def _open_until(metrics: DataFrame, slos: list[Slo], now_s: float) -> int | None:
    """When there is something to judge that could not be judged now; None if there never is."""
    if not any(slo.waits for slo in slos):
        return None
    ends = F.unix_seconds("window_end")
    found: int | None = metrics.where(ends > now_s).agg(F.min(ends)).collect()[0][0]
    return found


def _write_windows(
    spark: SparkSession, store: Files, source: dict[str, Any], stale: list[str], version: int, window_s: int
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for queue in sorted({name.rpartition("/")[0] for name in stale}):
        wanted = {name.rpartition("/")[2] for name in stale if name.rpartition("/")[0] == queue}
        homes = [
            name
            for name, day in source["days"].items()
            if name.rpartition("/")[0] == queue and any(day["first"] <= one <= day["last"] for one in wanted)
        ]
        rows = aggregates.windows(silver.read(spark, store, source, homes), window_s).where(F.col("day").isin(*wanted))
        folder = ("gold", "days", f"v={version}", folder_of(queue))
        frame = rows.withColumn("home", F.col("day")).coalesce(1)
        frame.write.mode("overwrite").partitionBy("home").parquet(store.path(*folder))
        found |= {f"{queue}/{name.removeprefix('home=')}": [*folder, name] for name in store.folders(*folder)}
    return found


def _sweep(store: Files, before: dict[str, Any], now: dict[str, Any]) -> None:
    used = {folder[2] for held in (before, now) for folder in held["days"].values()}
    versions = {f"v={held['version']}" for held in (before, now)}
    for name in store.folders("gold", "days"):
        if name not in used and int(name.removeprefix("v=")) < now["version"]:
            store.remove("gold", "days", name)
    for name in store.folders("gold", "metrics"):
        if name not in versions:
            store.remove("gold", "metrics", name)
