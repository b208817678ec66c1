"""Gold: per queue, name and window, what can be added up (counts, sketches); and the metrics that follow from it.

`days` is what adds up. It is kept by day, and only days that silver touched are rebuilt. `metrics` is derived from all
windows, and judged by the SLOs. It is small, and rebuilt whenever a window changed, or one has ended since that could
not be judged before.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline import aggregates, silver, slo_evaluation
from chasqui_engine.pipeline.bronze import Progress, folder_name
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.slo import Slo

_MANIFEST = ("gold", "manifest.json")
_EMPTY: dict[str, Any] = {"version": 0, "silver": 0, "window_s": 0, "days": {}, "slos": [], "open_until": None}


def read_manifest(store: Files) -> dict[str, Any]:
    """What gold holds: the version of silver that it was built from, the window, the folder of each day, the SLOs, and
    when the first window ends that was still open."""
    return store.read_json(*_MANIFEST) or _EMPTY


def update(
    spark: SparkSession, store: Files, config: PipelineConfig, slos: list[Slo], now_s: float, progress: Progress
) -> dict[str, Any]:
    """Rebuilds the days that silver touched; changes nothing when there are none."""
    current, source = read_manifest(store), silver.read_manifest(store)
    rules = [slo.to_dict() for slo in slos]
    rebuild_all = current["window_s"] != config.window_s
    since = 0 if rebuild_all else current["silver"]
    stale = [name for name, version in source["touched"].items() if version > since]
    ended = current["open_until"] is not None and current["open_until"] <= now_s
    if not stale and not ended and current["silver"] == source["version"] and current["slos"] == rules:
        return current
    version = current["version"] + 1
    days = {} if rebuild_all else {name: path for name, path in current["days"].items() if name not in stale}
    if stale:
        days |= _write_windows(spark, store, source, stale, version, config.window_s)
    result = {"version": version, "silver": source["version"], "window_s": config.window_s, "days": days, "slos": rules}
    rows = aggregates.derive_metrics(_read_windows(spark, store, days), config.window_s)
    known = _read_metrics(spark, store, current["version"]) if current["version"] and not rebuild_all else None
    judged = slo_evaluation.date_breaches(slo_evaluation.evaluate(rows, slos, now_s), known, version)
    judged.coalesce(1).write.mode("overwrite").parquet(store.path("gold", "metrics", f"v={version}"))
    result["open_until"] = _open_until(_read_metrics(spark, store, version), slos, now_s)
    store.write_json(result, *_MANIFEST)
    _sweep(store, current, result)
    progress(f"gold    {len(stale)} days rebuilt")
    return result


def read_metrics(spark: SparkSession, store: Files) -> DataFrame:
    """Metrics, one row per queue, name (and for all names together) and window."""
    return _read_metrics(spark, store, read_manifest(store)["version"])


def read_windows(spark: SparkSession, store: Files) -> DataFrame:
    """What adds up: counts and sketches."""
    return _read_windows(spark, store, read_manifest(store)["days"])


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
    folders: dict[str, list[str]] = {}
    for queue in sorted({name.rpartition("/")[0] for name in stale}):
        wanted = {name.rpartition("/")[2] for name in stale if name.rpartition("/")[0] == queue}
        homes = [
            name
            for name, day in source["days"].items()
            if name.rpartition("/")[0] == queue and any(day["first"] <= one <= day["last"] for one in wanted)
        ]
        rows = aggregates.count_windows(silver.read(spark, store, source, homes), window_s).where(
            F.col("day").isin(*wanted)
        )
        folder = ("gold", "days", f"v={version}", folder_name(queue))
        frame = rows.withColumn("home", F.col("day")).coalesce(1)
        frame.write.mode("overwrite").partitionBy("home").parquet(store.path(*folder))
        folders |= {f"{queue}/{name.removeprefix('home=')}": [*folder, name] for name in store.list_folders(*folder)}
    return folders


def _sweep(store: Files, before: dict[str, Any], now: dict[str, Any]) -> None:
    used = {folder[2] for manifest in (before, now) for folder in manifest["days"].values()}
    versions = {f"v={manifest['version']}" for manifest in (before, now)}
    for name in store.list_folders("gold", "days"):
        if name not in used and int(name.removeprefix("v=")) < now["version"]:
            store.remove("gold", "days", name)
    for name in store.list_folders("gold", "metrics"):
        if name not in versions:
            store.remove("gold", "metrics", name)
