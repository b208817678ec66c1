"""Silver's rows: one per job, life and attempt, built from all events of the job. A function of a set of events: in
which batches they came, and how often each came, make no difference.

A life of a job ends when it completes or dies. What follows under the same id is another life: the job was replayed
from the dead letters, or its id was used again. Attempts count from 1 in each. So a death stays a death, whatever
became of the job later.

A row keeps its events, in the order of the stream. So a late event needs nothing but the rows of its job, and the
events in bronze that a row was built from can be deleted.

What events do not say: a job that is added for now emits no event, and not every engine's `active` says when the job
was enqueued. Where it does not, that is known only if the id is a minted one (a ULID begins with its time).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline.windows import LAST_MS, day_of

_CROCKFORD = "ABCDEFGHJKMNPQRSTVWXYZ"
_BASE32 = "abcdefghijklmnopqrstuv"
_OLDEST_MS = 400 * 86_400_000
_SKEW_MS = 60_000
"""How far a producer's clock may be ahead of the server's."""
_LONGEST_MS = 2**52
"""Of a delay. Events hold any number, and sums must not overflow."""

_ENDS = {"completed": "completed", "dlq": "dead"}
"""Events that end a life, and the status of the attempt."""
_FINISHES = {"failed": "failed", **_ENDS}
_EVENTS = ("delayed", "waiting", "active", "retry-scheduled", *_FINISHES)
_ID = "struct<ms:bigint,number:bigint>"
"""An id of the events stream: it orders events, also where clocks differ."""
_EVENT = {
    "id": _ID,
    "event": "string",
    "ms": "bigint",
    "attempt": "bigint",  # null for `waiting`, which does not say which attempt it belongs to
    "planned_ms": "bigint",
    "duration_us": "bigint",
    "reason": "string",
    "enqueued_ms": "bigint",
}

COLUMNS = {
    "queue": "string",
    "job_key": "string",
    "job_id": "string",
    "name": "string",
    "life": "int",
    "attempt": "bigint",
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
    "events": f"array<struct<{','.join(f'{name}:{kind}' for name, kind in _EVENT.items())}>>",
}
_JOB = ("queue", "job_key")
_LIFE = (*_JOB, "life")


def select_job_events(events: DataFrame) -> DataFrame:
    """Events that are about a job. Of jobs that could not be read, only the death counts."""
    named = F.coalesce("job_id", F.lit("")) != ""
    of_a_job = F.col("event").isin(*_EVENTS) & (named | (F.col("event") == "dlq"))
    key = F.when(named, F.col("job_id")).otherwise(F.concat(F.lit("entry:"), F.col("entry_id")))
    return events.where(of_a_job).withColumns({"job_key": key, "job_id": F.coalesce("job_id", F.lit(""))})


def build_attempts(known: DataFrame, events: DataFrame) -> DataFrame:
    """Rows of jobs: the `known` ones, merged with `events` (of `select_job_events`)."""
    single = _pack_events(events).unionByName(_unpack_rows(known)).repartition(*_JOB)
    return _derive(_assign_waits(_group_by_attempt(_number_lives(single))))


def _pack_events(events: DataFrame) -> DataFrame:
    """Events in the form that rows keep them in."""
    id_parts = [F.split_part("entry_id", F.lit("-"), F.lit(n)).try_cast("bigint") for n in (1, 2)]
    attempt = F.when(_is("delayed"), F.lit(1)).when(~_is("waiting"), F.coalesce("attempt", F.lit(0)))
    planned = F.coalesce("delay_ms", "backoff_ms")
    planned = F.when(planned.between(0, _LONGEST_MS), planned)
    enqueued = F.unix_millis("enqueued_at")
    event = F.struct(
        F.struct(*id_parts), "event", F.unix_millis("ts"), attempt, planned, "duration_us", "reason", enqueued
    ).cast(f"struct<{','.join(f'{name}:{kind}' for name, kind in _EVENT.items())}>")
    return events.select(*_JOB, "job_id", "name", event.alias("one")).select(*_JOB, "job_id", "name", "one", "one.*")


def _unpack_rows(rows: DataFrame) -> DataFrame:
    single = rows.select(*_JOB, "job_id", "name", F.explode("events").alias("one"))
    return single.select(*_JOB, "job_id", "name", "one", "one.*")


def _is(*events: str) -> Column:
    return F.col("event").isin(*events)


def _number_lives(single: DataFrame) -> DataFrame:
    """Adds to each event the number of lives of its job that ended before it.

    Other engines may emit a `waiting` after the end of the life that it belongs to, so one that nothing follows begins
    no life.
    """
    job = Window.partitionBy(*_JOB)
    last = F.max(F.when(~_is("waiting"), F.col("id"))).over(job)
    ends = F.collect_set(F.when(_is(*_ENDS), F.col("id"))).over(job)
    frame = single.withColumns({"ends": ends, "known_until": F.least("id", last)})
    life = F.size(F.filter("ends", lambda end: end < F.col("known_until")))
    return frame.withColumn("life", life).drop("ends", "known_until")


def _group_by_attempt(single: DataFrame) -> DataFrame:
    """One row per attempt, and one more for the `waiting` of a life."""

    def first(events: Column, *columns: str) -> Column:
        return F.min(F.when(events, F.struct("id", *columns)))

    def last(events: Column, *columns: str) -> Column:
        return F.max(F.when(events, F.struct("id", *columns)))

    timed = _is("completed", "failed") & F.col("duration_us").isNotNull()
    return single.groupBy(*_LIFE, "attempt").agg(
        F.max("job_id").alias("job_id"),
        F.max("name").alias("name"),
        F.min("ms").alias("first_ms"),
        first(_is("delayed", "retry-scheduled"), "ms", "planned_ms").alias("announced"),
        first(_is("active"), "ms", "enqueued_ms").alias("active"),
        last(_is(*_FINISHES), "ms", "event").alias("finish"),
        last(timed, "duration_us").alias("timed"),
        last(_is("failed"), "reason").alias("failed"),
        last(_is("dlq"), "reason").alias("died"),
        F.min(F.when(_is("retry-scheduled"), F.struct("id", "attempt"))).alias("retry"),
        F.array_sort(F.collect_set("one")).alias("events"),
    )


def _assign_waits(frame: DataFrame) -> DataFrame:
    """Gives each `waiting` to the attempt that the last retry before it announced, which may have no other event."""
    life, job = Window.partitionBy(*_LIFE), Window.partitionBy(*_JOB)
    waits = F.flatten(F.collect_list(F.when(F.col("attempt").isNull(), F.col("events"))).over(life))
    frame = frame.withColumns(
        {
            "waits": waits,
            "retries": F.collect_list("retry").over(life),
            "seen": F.collect_set("attempt").over(life),
            "job_id": F.max("job_id").over(job),
            "name": F.max("name").over(job),
            "first_ms": F.min("first_ms").over(job),
        }
    )

    def find_attempt(wait: Column) -> Column:
        before = F.filter("retries", lambda retry: retry["id"] <= wait["id"])
        return F.array_max(
            F.concat(F.array(F.lit(1).cast("bigint")), F.transform(before, lambda retry: retry["attempt"]))
        )

    assigned = F.transform("waits", lambda wait: F.struct(wait.alias("wait"), find_attempt(wait).alias("attempt")))
    frame = frame.withColumn("assigned", assigned)
    unseen = F.array_except(F.transform("assigned", lambda one: one["attempt"]), F.col("seen"))
    alone = F.col("attempt").isNull()
    frame = frame.withColumns(
        {
            "attempt": F.explode(F.when(alone, unseen).otherwise(F.array("attempt"))),
            "events": F.when(~alone, F.col("events")),
        }
    )
    mine = F.filter("assigned", lambda one: one["attempt"] == F.col("attempt"))
    own = F.transform(mine, lambda one: one["wait"])
    return frame.withColumns(
        {
            "waiting_ms": F.array_min(own)["ms"],
            "events": F.array_sort(F.concat(F.coalesce("events", F.array().cast(COLUMNS["events"])), own)),
        }
    )


def _ulid_ms() -> Column:
    decoded = F.conv(F.translate(F.substring("job_id", 1, 10), _CROCKFORD, _BASE32), 32, 10).cast("bigint")
    plausible = decoded.between(F.col("first_ms") - _OLDEST_MS, F.col("first_ms") + _SKEW_MS)
    is_ulid = F.col("job_id").rlike("^[0-7][0-9A-HJKMNP-TV-Z]{25}$")
    return F.when(is_ulid & plausible, decoded)


def _derive(frame: DataFrame) -> DataFrame:
    """The columns of silver, from the events of each attempt."""
    first_attempt = F.col("attempt") <= 1
    added = F.when(first_attempt & (F.col("life") == 0), _ulid_ms())
    enqueued = F.coalesce(added, F.col("announced.ms"), F.when(first_attempt, F.col("active.enqueued_ms")))
    frame = frame.withColumns({"enqueued_ms": enqueued, "active_ms": F.col("active.ms")})
    due = F.col("announced.ms") + F.col("announced.planned_ms")
    due = F.when(due <= LAST_MS, due)
    ready = F.coalesce("active.enqueued_ms", "waiting_ms", due, F.when(first_attempt, F.col("enqueued_ms")))
    ended = F.coalesce(*(F.when(F.col("finish.event") == event, status) for event, status in _FINISHES.items()))
    frame = frame.withColumns(
        {
            "ready_ms": ready,
            "finished_ms": F.col("finish.ms"),
            "status": F.coalesce(ended, F.when(F.col("active_ms").isNotNull(), "running").otherwise("waiting")),
        }
    )
    is_first = F.col("attempt") == F.min("attempt").over(Window.partitionBy(*_LIFE))
    arrived = F.coalesce("enqueued_ms", "ready_ms", "active_ms", "finished_ms")
    latency = F.greatest(F.lit(0), F.col("active_ms") - F.col("ready_ms"))
    following = F.try_add("attempt", F.lit(1))
    frame = frame.withColumns(
        {
            "enqueued_at": F.timestamp_millis("enqueued_ms"),
            "ready_at": F.timestamp_millis("ready_ms"),
            "active_at": F.timestamp_millis("active_ms"),
            "finished_at": F.timestamp_millis("finished_ms"),
            "queue_latency_ms": F.when(F.col("active_ms").isNotNull() & F.col("ready_ms").isNotNull(), latency),
            "handler_us": F.col("timed.duration_us"),
            "retried": F.array_contains(F.transform("retries", lambda retry: retry["attempt"]), following),
            "reason": F.col("failed.reason"),
            "dead_reason": F.col("died.reason"),
            "partial": F.col("finished_ms").isNull() | ((F.col("attempt") > 0) & F.col("active_ms").isNull()),
            "arrived_at": F.when(is_first, F.timestamp_millis(arrived)),
            "departed_at": F.when(F.col("status").isin(*_ENDS.values()), F.timestamp_millis("finished_ms")),
            "day": day_of(F.timestamp_millis("first_ms")),
        }
    )
    return frame.select(*(F.col(name).cast(kind) for name, kind in COLUMNS.items()))
