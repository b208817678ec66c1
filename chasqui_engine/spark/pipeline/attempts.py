"""Silver's rows: one per job and attempt, made of all events of the job. A function of a set of events: the order in
which they came, and how often each came, make no difference.

What events do not tell: a job that is added for now leaves no event, so when it was enqueued is known only where its
id is a minted one (a ULID begins with its time). A job that is replayed from the dead letters counts its attempts from
1 again: such attempts share a row, and what happened last counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

_CROCKFORD = "ABCDEFGHJKMNPQRSTVWXYZ"
_BASE32 = "abcdefghijklmnopqrstuv"
_OLDEST_MS = 400 * 86_400_000
_SKEW_MS = 60_000
"""How far a producer's clock may be ahead of the server's."""

COLUMNS = {
    "queue": "string",
    "job_key": "string",
    "job_id": "string",
    "name": "string",
    "attempt": "int",
    "enqueued_at": "timestamp",
    "ready_at": "timestamp",
    "active_at": "timestamp",
    "finished_at": "timestamp",
    "status": "string",
    "queue_latency_ms": "bigint",
    "handler_us": "bigint",
    "retried": "boolean",
    "reason": "string",
    "dead_reason": "string",
    "partial": "boolean",
    "arrived_at": "timestamp",
    "departed_at": "timestamp",
    "day": "string",
}


def job_key() -> Column:
    """What tells jobs apart: the id, or the event itself where a job could not be read."""
    return F.when(F.col("job_id") != "", F.col("job_id")).otherwise(F.concat(F.lit("entry:"), F.col("entry_id")))


def about_jobs(events: DataFrame) -> DataFrame:
    """Events that say something about a job, each once. Of jobs that could not be read, only the death counts."""
    named = (F.coalesce("job_id", F.lit("")) != "") & (F.col("event") != "drained")
    frame = events.where(named | (F.col("event") == "dlq")).withColumn("job_id", F.coalesce("job_id", F.lit("")))
    return frame.dropDuplicates(["queue", "entry_id"]).withColumn("job_key", job_key())


def build(events: DataFrame) -> DataFrame:
    """Attempts of the jobs in `events` (as `about_jobs` gives them), which must be all events of these jobs."""
    ms = F.unix_millis("ts")
    order = F.struct(
        ms,
        F.split_part("entry_id", F.lit("-"), F.lit(1)).cast("decimal(20,0)"),
        F.split_part("entry_id", F.lit("-"), F.lit(2)).cast("decimal(20,0)"),
    )
    job = Window.partitionBy("queue", "job_key")
    retry = F.when(F.col("event") == "retry-scheduled", F.struct(ms.alias("ms"), F.col("attempt").alias("attempt")))
    frame = events.select("*", ms.alias("ms"), order.alias("order")).withColumns(
        {
            "retries": F.collect_list(retry).over(job),
            "first_ms": F.min("ms").over(job),
            "day": F.min(F.date_format("ts", "yyyy-MM-dd")).over(job),
        }
    )
    frame = frame.withColumn("attempt", _attempt()).groupBy("queue", "job_key", "attempt").agg(*_facts())
    return _derived(frame)


def _attempt() -> Column:
    """A `waiting` belongs to the attempt that the last retry before it announced."""
    announced = F.aggregate(
        F.filter("retries", lambda retry: retry["ms"] <= F.col("ms")),
        F.lit(1),
        lambda most, retry: F.greatest(most, retry["attempt"]),
    )
    return (
        F.when(F.col("event") == "waiting", announced)
        .when(F.col("event") == "delayed", F.lit(1))
        .otherwise(F.coalesce("attempt", F.lit(0)))
        .cast("int")
    )


def _when(*events: str) -> Column:
    return F.col("event").isin(*events)


def _facts() -> list[Column]:
    finishing = _when("completed", "failed", "dlq")
    announced = _when("delayed", "retry-scheduled")
    planned = F.struct("order", F.coalesce("delay_ms", "backoff_ms").alias("ms"))
    timed = _when("completed", "failed") & F.col("duration_us").isNotNull()
    return [
        F.max("job_id").alias("job_id"),
        F.max("name").alias("name"),
        F.min("day").alias("day"),
        F.min("first_ms").alias("first_ms"),
        F.first("retries").alias("retries"),
        F.min(F.when(announced, F.col("ms"))).alias("announced_ms"),
        F.min(F.when(announced, planned))["ms"].alias("planned_ms"),
        F.min(F.when(_when("waiting"), F.col("ms"))).alias("waiting_ms"),
        F.min(F.when(_when("active"), F.col("ms"))).alias("active_ms"),
        F.max(F.when(finishing, F.struct("order", "ms", "event"))).alias("finish"),
        F.max(F.when(timed, F.struct("order", "duration_us")))["duration_us"].alias("handler_us"),
        F.max(F.when(_when("failed"), F.struct("order", "reason")))["reason"].alias("reason"),
        F.max(F.when(_when("dlq"), F.struct("order", "reason")))["reason"].alias("dead_reason"),
    ]


def _ulid_ms() -> Column:
    decoded = F.conv(F.translate(F.substring("job_id", 1, 10), _CROCKFORD, _BASE32), 32, 10).cast("bigint")
    plausible = decoded.between(F.col("first_ms") - _OLDEST_MS, F.col("first_ms") + _SKEW_MS)
    is_ulid = F.col("job_id").rlike("^[0-7][0-9A-HJKMNP-TV-Z]{25}$")
    return F.when(is_ulid & plausible, decoded)


def _derived(frame: DataFrame) -> DataFrame:
    first = F.col("attempt") <= 1
    frame = frame.withColumn(
        "enqueued_ms", F.when(first, F.coalesce(_ulid_ms(), F.col("announced_ms"))).otherwise(F.col("announced_ms"))
    )
    due = F.col("announced_ms") + F.col("planned_ms")
    frame = frame.withColumns(
        {
            "ready_ms": F.coalesce("waiting_ms", due, F.when(first, F.col("enqueued_ms"))),
            "finished_ms": F.col("finish.ms"),
            "status": F.when(F.col("finish.event") == "dlq", "dead")
            .when(F.col("finish.event").isNotNull(), F.col("finish.event"))
            .when(F.col("active_ms").isNotNull(), "running")
            .otherwise("waiting"),
        }
    )
    job = Window.partitionBy("queue", "job_key")
    ends = F.when(F.col("status").isin("completed", "dead"), F.struct(F.col("finish.order"), F.col("attempt")))
    is_first = F.col("attempt") == F.min("attempt").over(job)
    is_last = F.col("attempt") == F.max(ends).over(job)["attempt"]
    ended = F.col("status").isin("completed", "dead")
    unseen = F.col("finished_ms").isNull() | ((F.col("attempt") > 0) & F.col("active_ms").isNull())
    arrived = F.coalesce("enqueued_ms", "ready_ms", "active_ms", "finished_ms")
    latency = F.greatest(F.lit(0), F.col("active_ms") - F.col("ready_ms"))
    following = F.col("attempt") + 1
    frame = frame.withColumns(
        {
            "enqueued_at": F.timestamp_millis("enqueued_ms"),
            "ready_at": F.timestamp_millis("ready_ms"),
            "active_at": F.timestamp_millis("active_ms"),
            "finished_at": F.timestamp_millis("finished_ms"),
            "queue_latency_ms": F.when(F.col("active_ms").isNotNull() & F.col("ready_ms").isNotNull(), latency),
            "retried": F.array_contains(F.transform("retries", lambda retry: retry["attempt"]), following),
            "partial": unseen,
            "arrived_at": F.when(is_first, F.timestamp_millis(arrived)),
            "departed_at": F.when(ended & is_last, F.timestamp_millis("finished_ms")),
        }
    )
    return frame.select(*(F.col(name).cast(kind) for name, kind in COLUMNS.items()))
