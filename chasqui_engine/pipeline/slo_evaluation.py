"""Evaluates SLOs per window: which objectives applied, and which were breached."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline.slo import LEAST, NEEDS_END, NEEDS_FINISHED, Slo

_JUDGEMENT = "struct<objective:int,metric:string,limit:double,value:double,kept:boolean>"
_BREACH = "struct<objective:int,metric:string,limit:double,value:double,since:int>"
_ROW = ("queue", "scope", "name", "window_start")


def list_objectives(slos: Sequence[Slo]) -> list[tuple[Slo, str, float]]:
    """Each limit by itself. Its index in this list is its number, in whatever order a file has them."""
    return [(slo, metric, limit) for slo in slos for metric, limit in sorted(slo.limits.items())]


def evaluate(frame: DataFrame, slos: Sequence[Slo], now_s: float) -> DataFrame:
    """Adds `judged`, the numbers of the objectives that applied to a window, and `breaches`, those it did not meet."""
    over = F.unix_seconds("window_end") <= now_s
    judgements = [_judge(n, *objective, over) for n, objective in enumerate(list_objectives(slos))]
    all_of = F.array(*judgements) if judgements else F.from_json(F.lit("[]"), f"array<{_JUDGEMENT}>")
    applied = F.filter(all_of, lambda one: one.isNotNull())
    return frame.withColumns(
        {
            "judged": F.transform(applied, lambda one: one["objective"]),
            "breaches": F.filter(applied, lambda one: ~one["kept"]),
        }
    )


def date_breaches(frame: DataFrame, before: DataFrame | None, version: int) -> DataFrame:
    """Adds to each breach the version of gold in which it was first found: one in `before`, or this one."""
    if before is None:
        return frame.withColumn("breaches", _with_since(lambda _: F.lit(version)))
    breach = F.explode("breaches").alias("breach")
    known = before.select(*_ROW, breach).groupBy(*_ROW, "breach.metric").agg(F.min("breach.since").alias("since"))
    known = known.groupBy(*_ROW).agg(F.map_from_entries(F.collect_list(F.struct("metric", "since"))).alias("known"))

    def found_in(one: Column) -> Column:
        return F.coalesce(F.try_element_at("known", one["metric"]), F.lit(version))

    return frame.join(known, list(_ROW), "left").withColumn("breaches", _with_since(found_in)).drop("known")


def _with_since(found_in: Callable[[Column], Column]) -> Column:
    def date(one: Column) -> Column:
        columns = [one[name] for name in ("objective", "metric", "limit", "value")]
        return F.struct(*columns, found_in(one)).cast(_BREACH)

    return F.transform("breaches", date)


def _judge(number: int, slo: Slo, metric: str, limit: float, over: Column) -> Column:
    applies = (F.col("scope") == ("queue" if slo.name is None else "name")) & (F.col("queue") == slo.queue)
    if slo.name is not None:
        applies = applies & (F.col("name") == slo.name)
    if metric in NEEDS_FINISHED:
        applies = applies & (F.col("completed") + F.col("failed") >= slo.min_finished)
    if metric in NEEDS_END:
        applies = applies & over
    value = F.col(metric).cast("double")
    kept = value >= limit if metric in LEAST else value <= limit
    judgement = F.struct(F.lit(number), F.lit(metric), F.lit(limit), value, kept)
    return F.when(applies & value.isNotNull(), judgement.cast(_JUDGEMENT))
