"""Answers held against what was promised: which promises a window was judged by, and which it did not keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline.slo import LEAST, NEEDS_END, NEEDS_FINISHED, Slo

_JUDGEMENT = "struct<promise:int,metric:string,limit:double,value:double,kept:boolean>"
_BREACH = "struct<promise:int,metric:string,limit:double,value:double,since:int>"
_ROW = ("queue", "scope", "name", "window_start")


def promises(slos: Sequence[Slo]) -> list[tuple[Slo, str, float]]:
    """Each limit by itself. Its place in this list is its number, in whatever order a file has them."""
    return [(slo, metric, limit) for slo in slos for metric, limit in sorted(slo.limits.items())]


def evaluate(frame: DataFrame, slos: Sequence[Slo], now_s: float) -> DataFrame:
    """Adds `judged`, the numbers of the promises that a window was judged by, and `breaches`, those it did not keep."""
    over = F.unix_seconds("window_end") <= now_s
    found = [_judgement(n, *promise, over) for n, promise in enumerate(promises(slos))]
    all_of = F.array(*found) if found else F.from_json(F.lit("[]"), f"array<{_JUDGEMENT}>")
    told = F.filter(all_of, lambda one: one.isNotNull())
    return frame.withColumns(
        {
            "judged": F.transform(told, lambda one: one["promise"]),
            "breaches": F.filter(told, lambda one: ~one["kept"]),
        }
    )


def known_since(frame: DataFrame, before: DataFrame | None, version: int) -> DataFrame:
    """Says of each breach in which version of gold it was first found: in `before` already, or in this one."""
    if before is None:
        return frame.withColumn("breaches", _since(lambda _: F.lit(version)))
    breach = F.explode("breaches").alias("breach")
    known = before.select(*_ROW, breach).groupBy(*_ROW, "breach.metric").agg(F.min("breach.since").alias("since"))
    known = known.groupBy(*_ROW).agg(F.map_from_entries(F.collect_list(F.struct("metric", "since"))).alias("known"))

    def found_in(one: Column) -> Column:
        return F.coalesce(F.try_element_at("known", one["metric"]), F.lit(version))

    return frame.join(known, list(_ROW), "left").withColumn("breaches", _since(found_in)).drop("known")


def _since(found_in: Callable[[Column], Column]) -> Column:
    def told(one: Column) -> Column:
        columns = [one[name] for name in ("promise", "metric", "limit", "value")]
        return F.struct(*columns, found_in(one)).cast(_BREACH)

    return F.transform("breaches", told)


def _judgement(number: int, slo: Slo, metric: str, limit: float, over: Column) -> Column:
    applies = (F.col("scope") == ("queue" if slo.name is None else "name")) & (F.col("queue") == slo.queue)
    if slo.name is not None:
        applies = applies & (F.col("name") == slo.name)
    if metric in NEEDS_FINISHED:
        applies = applies & (F.col("completed") + F.col("failed") >= slo.min_finished)
    if metric in NEEDS_END:
        applies = applies & over
    value = F.col(metric).cast("double")
    kept = value >= limit if metric in LEAST else value <= limit
    told = F.struct(F.lit(number), F.lit(metric), F.lit(limit), value, kept)
    return F.when(applies & value.isNotNull(), told.cast(_JUDGEMENT))
