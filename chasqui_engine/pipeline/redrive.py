"""Redrive: dead letters, selected by a condition, repaired by a function, enqueued again, and marked.

Each is enqueued under its own id with the id of its dead letter as a suffix, so that running a redrive again adds
nothing. The dead letter stays where it is; when, by whom and as which job it was redriven is recorded beside it, and
shows in the columns `redriven_…` of the entity `dead`. `still_dead` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine._redis.blocking import read
from chasqui_engine._redis.blocking import redrive as marks
from chasqui_engine._redis.blocking.redrive import RedriveMark
from chasqui_engine.codec.envelope import decode_payload, encode_payload
from chasqui_engine.pipeline.condition import check_condition
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import select_options
from chasqui_engine.spark.read.rows import json_of
from chasqui_engine.spark.schemas import COLUMNS
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.validation import MAX_JOB_ID_BYTES

Repair = Callable[[Any], Any]
"""Repairs a payload: returns the one for the new job."""

_RETRY = {name: kind for name, kind in COLUMNS["dead"].items() if name.startswith("backoff_")}
_JOBS = {"entry_id": "string", "name": "string", "payload": "binary", "id": "string", "attempts": "bigint", **_RETRY}
_DEDUP_S = 30 * 86_400
"""Seconds for which the id of a redriven job stays taken."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """The outcome of a redrive."""

    selected: int
    redriven: int
    """Jobs that were added: selected, and not redriven before."""


class RedrivePlan:
    """The jobs that a redrive would add, before it adds them. A context manager: its end frees what Spark keeps."""

    def __init__(self, jobs: DataFrame, source: QueueLocation, target: QueueLocation, options: dict[str, str]) -> None:
        self._jobs = jobs.persist()
        self._source = source
        self._target = target
        self._options = options
        self._ids = {row.entry_id: row.id for row in self._jobs.select("entry_id", "id").collect()}
        entry_ids = list(self._ids)
        with source.connect() as connection, target.connect() as target_connection:
            marked = marks.read_marks(connection, source.keys, entry_ids)
            unmarked = [entry_id for entry_id in entry_ids if entry_id not in marked]
            # Without its mark, a dead letter is still recognised by the id of its job.
            known = marks.find_taken(target_connection, target.keys, [self._ids[entry_id] for entry_id in unmarked])
        self._unmarked = unmarked
        self.selected = len(entry_ids)
        """Dead letters that were selected."""
        self.fresh = len(unmarked) - len(known)
        """Those not redriven before: the number of jobs that will be added."""

    def preview(self, limit: int = 10) -> list[Row]:
        """The first jobs that will be added, with their payload as it will be: entry_id, id, name, payload_json."""
        rows = self._jobs.where(F.col("entry_id").isin(self._unmarked[:limit])).orderBy("entry_id").collect()
        columns = Row("entry_id", "id", "name", "payload_json")
        return [columns(row.entry_id, row.id, row.name, json_of(bytes(row.payload))) for row in rows]

    def run(self, by: str | None = None) -> Redriven:
        """Adds the jobs, and marks their dead letters with `by` (default: Spark's user and application)."""
        if self._unmarked:
            spark = self._jobs.sparkSession
            unmarked = _frame_of_ids(spark, self._unmarked)
            all_of_them = len(self._unmarked) == self.selected
            wanted = self._jobs if all_of_them else self._jobs.join(unmarked, "entry_id", "left_semi")
            writer = wanted.drop("entry_id").write.format("chasqui").options(**select_options("write", self._options))
            writer = writer.option("queue", self._target.queue)
            writer.option("dedupTtlSeconds", str(_DEDUP_S)).mode("append").save()
            self._mark(by or _user_and_application(spark))
        return Redriven(selected=self.selected, redriven=self.fresh)

    def _mark(self, by: str) -> None:
        with self._source.connect() as connection:
            now_ms = read.server_now_ms(connection)
            found = {
                entry_id: RedriveMark(at_ms=now_ms, by=by, queue=self._target.queue, job_id=self._ids[entry_id])
                for entry_id in self._unmarked
            }
            marks.mark_redriven(connection, self._source.keys, found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._jobs.unpersist()


def plan_redrive(
    spark: SparkSession,
    queue: str,
    *,
    where: str | DataFrame,
    repair: Repair | None = None,
    options: Mapping[str, str] | None = None,
    target: str | None = None,
) -> RedrivePlan:
    """Selects dead letters, by a condition on their columns or as a frame with their `entry_id`; adds nothing yet."""
    options = _check_options(options)
    source = QueueLocation(url=connection_url(options), queue=queue)
    jobs = _build_jobs(_select(_read_dead(spark, queue, options), where), repair)
    return RedrivePlan(jobs, source, QueueLocation(url=source.url, queue=target or queue), options)


def redrive(
    spark: SparkSession,
    queue: str,
    *,
    where: str | DataFrame,
    repair: Repair | None = None,
    options: Mapping[str, str] | None = None,
    target: str | None = None,
    by: str | None = None,
) -> Redriven:
    """Redrives dead letters without a preview."""
    with plan_redrive(spark, queue, where=where, repair=repair, options=options, target=target) as plan:
        return plan.run(by)


def _user_and_application(spark: SparkSession) -> str:
    context = spark.sparkContext
    return f"{context.sparkUser()}, {context.applicationId}"


def still_dead(spark: SparkSession, queue: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Dead letters that were not redriven."""
    options = _check_options(options)
    source = QueueLocation(url=connection_url(options), queue=queue)
    with source.connect() as connection:
        done = sorted(marks.list_redriven(connection, source.keys))
    return _read_dead(spark, queue, options).join(_frame_of_ids(spark, done), "entry_id", "left_anti")


def _check_options(given: Mapping[str, str] | None) -> dict[str, str]:
    options = dict(given or {})
    for name in options:
        if name.lower() in ("queue", "entity"):
            raise ConfigError(f"options must not have {name!r}: pass the queue as an argument, and another as target")
    if unknown := options.keys() - select_options("read", options).keys() - select_options("write", options).keys():
        raise ConfigError(f"options has {min(unknown)!r}, which is an option of neither reads nor writes")
    return options


def _read_dead(spark: SparkSession, queue: str, options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("chasqui").options(**select_options("read", options), queue=queue, entity="dead").load()


def _frame_of_ids(spark: SparkSession, entry_ids: Sequence[str]) -> DataFrame:
    return spark.createDataFrame([(entry_id,) for entry_id in entry_ids], "entry_id string")


def _select(dead: DataFrame, where: str | DataFrame) -> DataFrame:
    readable = dead.where("job_id is not null")
    if isinstance(where, DataFrame):
        if "entry_id" not in where.columns:
            raise ConfigError(f"where must have a column entry_id, it has {', '.join(where.columns)}")
        return readable.join(where.select("entry_id"), "entry_id", "left_semi")
    try:
        return readable.where(check_condition(where, COLUMNS["dead"]))
    except AnalysisException as err:
        why = str(err).strip().partition("\n")[0].rstrip(";. ")
        raise ConfigError(
            f"where must be a SQL condition on the columns of a dead letter ({', '.join(COLUMNS['dead'])}), "
            f"got {where!r}: {why}"
        ) from err


def _build_jobs(dead: DataFrame, repair: Repair | None) -> DataFrame:
    """Dead letters as rows that a write takes, with the retries and backoff of their own."""
    attempts = F.col("max_attempts").alias("attempts")
    rows = dead.select("entry_id", "name", "payload", _new_id().alias("id"), attempts, *_RETRY)
    if repair is None:
        return rows
    return rows.mapInArrow(_repair_batches(repair), ", ".join(f"{name} {kind}" for name, kind in _JOBS.items()))


def _new_id() -> Column:
    """The job's id and the dead letter's: the same dead letter is always the same job. Where that gets too long, a
    digest replaces the job's id."""
    plain = F.concat_ws("~", "job_id", "entry_id")
    short = F.concat_ws("~", F.sha2("job_id", 256), "entry_id")
    return F.when(F.octet_length(plain) <= MAX_JOB_ID_BYTES, plain).otherwise(short)


def _repair_batches(repair: Repair) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            payloads = [encode_payload(repair(decode_payload(value))) for value in batch.column("payload").to_pylist()]
            index = batch.schema.get_field_index("payload")
            yield batch.set_column(index, "payload", pa.array(payloads, batch.schema.field("payload").type))

    return work
