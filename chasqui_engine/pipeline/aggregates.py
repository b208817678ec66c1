"""Aggregates: attempts as counts and sketches per window, and the metrics that follow from these.

Counts and sketches add up, over names and over windows. Rates, percentiles, backlog and the comparison with the window
before are derived from them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline.windows import DAY_S, day_of, window_of

COUNTS = ("arrived", "started", "completed", "failed", "retried", "dead", "departed", "partial")
SKETCHES = ("latency_sketch", "handler_sketch")
WINDOWS = (
    "queue string, name string, window_start timestamp, "
    + ", ".join(f"{name} bigint" for name in COUNTS)
    + ", "
    + ", ".join(f"{name} binary" for name in SKETCHES)
    + ", day string"
)
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
COMPARED = ("throughput_per_s", "failure_rate", "latency_p95_ms", "handler_p95_ms")
"""Metrics that are compared with those of the window before."""


def count_windows(attempts: DataFrame, window_s: int) -> DataFrame:
    """Attempts as counts and sketches per queue, name and window. Each time of a row counts in its own window."""
    name = F.coalesce("name", F.lit("")).alias("name")

    def facts(at: str, **values: Column) -> DataFrame:
        empty = {column: F.lit(0) for column in COUNTS} | {"latency": F.lit(None), "handler": F.lit(None)}
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
    counts = [F.sum(column).alias(column) for column in COUNTS]
    sketches = [_sketch(F.col("latency")).alias("latency_sketch"), _sketch(F.col("handler")).alias("handler_sketch")]
    frame = rows.groupBy("queue", "name", window_of("at", window_s).alias("window_start")).agg(*counts, *sketches)
    return frame.withColumn("day", day_of("window_start"))


def _sketch(values: Column) -> Column:
    return F.when(F.count(values) > 0, F.kll_sketch_agg_bigint(values))


def _merge(frame: DataFrame, *by: str) -> DataFrame:
    """Adds counts and merges sketches."""
    sketches = [F.when(F.count(name) > 0, F.kll_merge_agg_bigint(name)).alias(name) for name in SKETCHES]
    return frame.groupBy(*by).agg(*(F.sum(column).alias(column) for column in COUNTS), *sketches)


def sum_up(frame: DataFrame, window_s: int, *by: str) -> DataFrame:
    """Metrics over all windows. Throughput is over the time in which the queue has events, for its names too, so that
    theirs add up to the queue's."""
    epoch = F.unix_seconds("window_start")
    span = frame.groupBy("queue").agg((F.max(epoch) - F.min(epoch) + window_s).alias("seconds"))
    return _add_rates(_merge(frame, *by).join(span, "queue"), F.col("seconds")).drop(*SKETCHES)


def sum_up_days(frame: DataFrame, *by: str) -> DataFrame:
    """Metrics over what `by` names, a day among it."""
    rows = _add_rates(_merge(frame, *by), F.lit(DAY_S))
    return rows.drop(*SKETCHES, "throughput_per_s")  # a day that goes on has no throughput yet


def _add_rates(frame: DataFrame, seconds: Column) -> DataFrame:
    """Adds rates and percentiles, from counts and sketches."""
    finished = F.col("completed") + F.col("failed")
    columns = {
        "throughput_per_s": F.col("completed") / seconds,
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


def derive_metrics(frame: DataFrame, window_s: int) -> DataFrame:
    """Metrics per window: of each name, and of each queue as a whole (`scope` says which)."""
    by_name = frame.drop("day").withColumn("scope", F.lit("name"))
    whole = _merge(frame, "queue", "window_start").withColumns({"name": F.lit(""), "scope": F.lit("queue")})
    rows = _add_rates(by_name.unionByName(whole), F.lit(float(window_s))).drop(*SKETCHES)
    epoch = F.unix_seconds("window_start")
    line = Window.partitionBy("queue", "scope", "name")
    so_far = line.orderBy(epoch).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    just_before = line.orderBy(epoch).rangeBetween(-window_s, -window_s)
    changes = {f"{column}_change": F.col(column) - F.max(column).over(just_before) for column in COMPARED}
    # A window without events has a throughput of 0; before the first one nothing is known.
    done_before = F.coalesce(F.max("throughput_per_s").over(just_before), F.lit(0.0))
    changes["throughput_per_s_change"] = F.when(
        epoch > F.min(epoch).over(line), F.col("throughput_per_s") - done_before
    )
    return rows.withColumns(
        {
            "backlog": F.sum(F.col("arrived") - F.col("departed")).over(so_far),
            **changes,
            "window_end": F.timestamp_seconds(epoch + window_s),
        }
    )
