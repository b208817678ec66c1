"""Silver's rows: one per job and attempt, made of all events of the job. A function of a set of events: the order in
which they came, and how often each came, make no difference.

A row keeps what events told of it in a form that can be merged with what others tell later (`told`, and of the job as
a whole `retries` and `waitings`): the least, the greatest, or a set. So late events need nothing but the row, and the
events that made it can be let go.

What events do not tell: a job that is added for now leaves no event, so when it was enqueued is known only where its
id is a minted one (a ULID begins with its time). A job that is replayed from the dead letters counts its attempts from
1 again: such attempts share a row, and what happened last counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline.windows import day_of

_CROCKFORD = "ABCDEFGHJKMNPQRSTVWXYZ"
_BASE32 = "abcdefghijklmnopqrstuv"
_OLDEST_MS = 400 * 86_400_000
_SKEW_MS = 60_000
"""How far a producer's clock may be ahead of the server's."""

_STATUS = ("failed", "completed", "dead")
"""What an attempt ended as. Of two in one millisecond the later one counts: a death follows its failure."""
_TOLD = {
    "heard_ms": "bigint",  # of the first event; null where only `waiting` was heard
    "announced": "struct<ms:bigint,planned_ms:bigint>",  # the first `delayed` or `retry-scheduled`
    "active_ms": "bigint",
    "finish": "struct<ms:bigint,status:int>",
    "timed": "struct<ms:bigint,us:bigint>",
    "failed": "struct<ms:bigint,reason:string>",
    "died": "struct<ms:bigint,reason:string>",
}
_LEAST = ("heard_ms", "announced", "active_ms")
_SETS = {"retries": "array<struct<ms:bigint,attempt:int>>", "waitings": "array<bigint>"}

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
    "told": f"struct<{','.join(f'{name}:{kind}' for name, kind in _TOLD.items())}>",
    **_SETS,
}
_KEY = ("queue", "job_key")


def job_key() -> Column:
    """What tells jobs apart: the id, or the event itself where a job could not be read."""
    return F.when(F.col("job_id") != "", F.col("job_id")).otherwise(F.concat(F.lit("entry:"), F.col("entry_id")))


def about_jobs(events: DataFrame) -> DataFrame:
    """Events that say something about a job. Of jobs that could not be read, only the death counts."""
    named = (F.coalesce("job_id", F.lit("")) != "") & (F.col("event") != "drained")
    frame = events.where(named | (F.col("event") == "dlq")).withColumn("job_id", F.coalesce("job_id", F.lit("")))
    return frame.withColumn("job_key", job_key())


def build(known: DataFrame, events: DataFrame) -> DataFrame:
    """Rows of jobs: what was known of them, with what `events` (as `about_jobs` gives them) tell."""
    told = _of_events(events).unionByName(_of_rows(known)).repartition(*_KEY)
    own = [(F.min if name in _LEAST else F.max)(name).alias(name) for name in ("job_id", "name", *_TOLD)]
    sets = [F.flatten(F.collect_list(name)).alias(name) for name in _SETS]
    return _derived(_with_waits(told.groupBy(*_KEY, "attempt").agg(*own, *sets)))


def _when(*events: str) -> Column:
    return F.col("event").isin(*events)


def _of_events(events: DataFrame) -> DataFrame:
    """What each event tells. To which attempt a `waiting` belongs is not for itself to say."""
    ms = F.unix_millis("ts")
    attempt = F.when(_when("delayed"), F.lit(1)).otherwise(F.coalesce("attempt", F.lit(0)))
    planned = F.coalesce("delay_ms", "backoff_ms")
    status = F.when(_when("failed"), 0).when(_when("completed"), 1).otherwise(2)
    timed = _when("completed", "failed") & F.col("duration_us").isNotNull()
    told = {
        "attempt": F.when(~_when("waiting"), attempt.cast("int")),
        "heard_ms": F.when(~_when("waiting"), ms),
        "announced": F.when(_when("delayed", "retry-scheduled"), F.struct(ms, planned)),
        "active_ms": F.when(_when("active"), ms),
        "finish": F.when(_when("completed", "failed", "dlq"), F.struct(ms, status)),
        "timed": F.when(timed, F.struct(ms, "duration_us")),
        "failed": F.when(_when("failed"), F.struct(ms, "reason")),
        "died": F.when(_when("dlq"), F.struct(ms, "reason")),
        "retries": F.when(_when("retry-scheduled"), F.array(F.struct(ms, attempt))),
        "waitings": F.when(_when("waiting"), F.array(ms)),
    }
    kinds = {"attempt": "int", **_TOLD, **_SETS}
    return events.select(*_KEY, "job_id", "name", *(told[name].cast(kind).alias(name) for name, kind in kinds.items()))


def _of_rows(rows: DataFrame) -> DataFrame:
    """What known rows tell. One that is there for a `waiting` only may turn out to be another attempt's."""
    attempt = F.when(F.col("told.heard_ms").isNotNull(), F.col("attempt")).alias("attempt")
    return rows.select(*_KEY, "job_id", "name", attempt, "told.*", *_SETS)


def _with_waits(frame: DataFrame) -> DataFrame:
    """Adds what is the job's as a whole, and to each attempt its `waiting`: it belongs to the attempt that the last
    retry before it announced, which may not have been heard of otherwise."""
    job = Window.partitionBy(*_KEY)
    whole = {name: F.array_sort(F.array_distinct(F.flatten(F.collect_list(name).over(job)))) for name in _SETS}
    frame = frame.withColumns(
        {
            **whole,
            "heard": F.collect_set("attempt").over(job),
            "job_id": F.max("job_id").over(job),
            "name": F.max("name").over(job),
            "first_heard_ms": F.min("heard_ms").over(job),
        }
    )

    def announced(ms: Column) -> Column:
        before = F.filter("retries", lambda retry: retry["ms"] <= ms)
        return F.array_max(F.concat(F.array(F.lit(1)), F.transform(before, lambda retry: retry["attempt"])))

    waits = F.transform("waitings", lambda ms: F.struct(ms.alias("ms"), announced(ms).alias("attempt")))
    frame = frame.withColumns({"waits": waits, "first_ms": F.least("first_heard_ms", F.array_min("waitings"))})
    unheard = F.array_except(F.transform("waits", lambda wait: wait["attempt"]), F.col("heard"))
    attempts = F.when(F.col("attempt").isNull(), unheard).otherwise(F.array("attempt"))
    frame = frame.withColumn("attempt", F.explode(attempts))
    mine = F.filter("waits", lambda wait: wait["attempt"] == F.col("attempt"))
    return frame.withColumn("waiting_ms", F.array_min(F.transform(mine, lambda wait: wait["ms"])))


def _ulid_ms() -> Column:
    decoded = F.conv(F.translate(F.substring("job_id", 1, 10), _CROCKFORD, _BASE32), 32, 10).cast("bigint")
    plausible = decoded.between(F.col("first_ms") - _OLDEST_MS, F.col("first_ms") + _SKEW_MS)
    is_ulid = F.col("job_id").rlike("^[0-7][0-9A-HJKMNP-TV-Z]{25}$")
    return F.when(is_ulid & plausible, decoded)


def _derived(frame: DataFrame) -> DataFrame:
    first = F.col("attempt") <= 1
    announced_ms = F.col("announced.ms")
    frame = frame.withColumn("enqueued_ms", F.coalesce(F.when(first, _ulid_ms()), announced_ms))
    due = announced_ms + F.col("announced.planned_ms")
    ended = F.coalesce(*(F.when(F.col("finish.status") == n, status) for n, status in enumerate(_STATUS)))
    frame = frame.withColumns(
        {
            "ready_ms": F.coalesce("waiting_ms", due, F.when(first, F.col("enqueued_ms"))),
            "finished_ms": F.col("finish.ms"),
            "status": F.coalesce(ended, F.when(F.col("active_ms").isNotNull(), "running").otherwise("waiting")),
        }
    )
    job = Window.partitionBy(*_KEY)
    over = F.col("status").isin("completed", "dead")
    is_first = F.col("attempt") == F.min("attempt").over(job)
    is_last = F.col("attempt") == F.max(F.when(over, F.struct("finish", "attempt"))).over(job)["attempt"]
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
            "handler_us": F.col("timed.us"),
            "retried": F.array_contains(F.transform("retries", lambda retry: retry["attempt"]), following),
            "reason": F.col("failed.reason"),
            "dead_reason": F.col("died.reason"),
            "partial": F.col("finished_ms").isNull() | ((F.col("attempt") > 0) & F.col("active_ms").isNull()),
            "arrived_at": F.when(is_first, F.timestamp_millis(arrived)),
            "departed_at": F.when(over & is_last, F.timestamp_millis("finished_ms")),
            "day": day_of(F.timestamp_millis("first_ms")),
            "told": F.struct(*_TOLD),
        }
    )
    return frame.select(*(F.col(name).cast(kind) for name, kind in COLUMNS.items()))
