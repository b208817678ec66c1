"""What one would take instead of Spark on one machine: polars or duckdb, in a process of its own.

    python one_machine.py polars|duckdb <folder with the events as Parquet> <seconds of a window>

Reads events, makes one row per job and attempt, then counts, rates and percentiles per name and window. Prints the
seconds of each step and the totals as one line of JSON. Knows neither lives, retries nor late events.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

_EVENTS = ("active", "completed", "failed", "dlq")


def by_polars(folder: str, window_s: int) -> tuple[float, float, dict[str, int]]:
    import polars as pl  # type: ignore[import-not-found, unused-ignore]

    started = time.perf_counter()
    columns = ["event", "job_id", "name", "attempt", "ts", "duration_us", "enqueued_at"]
    events = pl.scan_parquet(f"{folder}/**/*.parquet").select(columns).filter(pl.col("event").is_in(_EVENTS))
    is_end = pl.col("event") != "active"
    attempts = (
        events.group_by("job_id", "attempt")
        .agg(
            pl.col("name").max(),
            pl.col("ts").filter(~is_end).min().alias("active_at"),
            pl.col("enqueued_at").min(),
            pl.col("ts").filter(is_end).max().alias("finished_at"),
            pl.col("event").filter(is_end).last().alias("end"),
            pl.col("duration_us").max(),
        )
        .collect(engine="streaming")
    )
    made = time.perf_counter()
    window = pl.col("finished_at").dt.truncate(f"{window_s}s")
    latency = (pl.col("active_at") - pl.col("enqueued_at")).dt.total_milliseconds()
    metrics = (
        attempts.lazy()
        .group_by("name", window.alias("window"))
        .agg(
            (pl.col("end") == "completed").sum().alias("completed"),
            (pl.col("end") != "completed").sum().alias("failed"),
            *(latency.quantile(rank).alias(f"latency_{rank}") for rank in (0.5, 0.95, 0.99)),
            *(pl.col("duration_us").quantile(rank).alias(f"handler_{rank}") for rank in (0.5, 0.95, 0.99)),
        )
        .collect(engine="streaming")
    )
    done = time.perf_counter()
    totals = {"attempts": attempts.height, "completed": int(metrics["completed"].sum())}
    return made - started, done - made, totals


def by_duckdb(folder: str, window_s: int) -> tuple[float, float, dict[str, int]]:
    import duckdb  # type: ignore[import-not-found, unused-ignore]

    base = duckdb.connect()
    started = time.perf_counter()
    base.execute(
        f"""
        create table attempts as
        select job_id, attempt, max(name) as name, min(ts) filter (event = 'active') as active_at,
               min(enqueued_at) as enqueued_at, max(ts) filter (event <> 'active') as finished_at,
               max(event) filter (event <> 'active') as "end", max(duration_us) as duration_us
        from read_parquet('{folder}/**/*.parquet') where event in {_EVENTS} group by all
        """
    )
    made = time.perf_counter()
    base.execute(
        f"""
        create table metrics as
        select name, time_bucket(interval '{window_s} seconds', finished_at) as "window",
               count(*) filter ("end" = 'completed') as completed, count(*) filter ("end" <> 'completed') as failed,
               approx_quantile(epoch_ms(active_at) - epoch_ms(enqueued_at), [0.5, 0.95, 0.99]) as latency,
               approx_quantile(duration_us, [0.5, 0.95, 0.99]) as handler
        from attempts group by all
        """
    )
    done = time.perf_counter()
    found = base.execute("select (select count(*) from attempts), (select sum(completed) from metrics)").fetchone()
    assert found is not None
    return made - started, done - made, {"attempts": int(found[0]), "completed": int(found[1])}


if __name__ == "__main__":
    program: Any = {"polars": by_polars, "duckdb": by_duckdb}[sys.argv[1]]
    attempts_s, metrics_s, totals = program(sys.argv[2], int(sys.argv[3]))
    print(json.dumps({"attempts": attempts_s, "metrics": metrics_s, **{f"total_{k}": v for k, v in totals.items()}}))
