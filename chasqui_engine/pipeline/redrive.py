"""The way back: dead letters, selected by a SQL condition, repaired by a function, enqueued again, and marked.

Each is enqueued under its own id with the suffix of its dead letter, so that running a redrive again adds nothing. The
dead letter stays where it is; that it was re-driven is kept beside it, and `still_dead` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine._redis.blocking import redrive as blocking_redrive
from chasqui_engine.codec import decode_payload, encode_payload
from chasqui_engine.errors import ConfigError
from chasqui_engine.pipeline.condition import check_condition
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import taken_by
from chasqui_engine.spark.schemas import COLUMNS
from chasqui_engine.validation import MAX_JOB_ID_BYTES

Repair = Callable[[Any], Any]
"""Given a payload, returns the one to run with."""

_RETRY = {name: kind for name, kind in COLUMNS["dead"].items() if name.startswith("backoff_")}
_JOBS = {"entry_id": "string", "name": "string", "payload": "binary", "id": "string", "attempts": "bigint", **_RETRY}
_TAKEN_S = 30 * 86_400
"""How long the id of a re-driven job stays taken."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """What a redrive did."""

    selected: int
    redriven: int
    """Jobs that were added: selected, and not re-driven before."""


def redrive(
    spark: SparkSession,
    queue: str,
    *,
    where: str | DataFrame,
    repair: Repair | None = None,
    options: Mapping[str, str] | None = None,
    target: str | None = None,
) -> Redriven:
    """Makes jobs of dead letters: those that a condition on their columns picks, or a frame with their `entry_id`."""
    reach = _reach(options)
    place = QueueLocation(url=connection_url(reach), queue=queue)
    goal = QueueLocation(url=place.url, queue=target or queue)
    jobs = _jobs(_chosen(_dead(spark, queue, reach), where), repair).persist()
    try:
        found = {row.entry_id: row.id for row in jobs.select("entry_id", "id").collect()}
        with place.connect() as connection, goal.connect() as there:
            done = blocking_redrive.redriven(connection, place.keys, list(found))
            fresh = [entry_id for entry_id in found if entry_id not in done]
            # Where the marks are lost, the ids still tell.
            known = blocking_redrive.taken(there, goal.keys, [found[entry_id] for entry_id in fresh])
        if fresh:
            wanted = jobs.join(_ids(spark, fresh), "entry_id", "left_semi") if done else jobs
            writer = wanted.drop("entry_id").write.format("chasqui").options(**taken_by("write", reach))
            writer = writer.option("queue", goal.queue)
            writer.option("dedupTtlSeconds", str(_TAKEN_S)).mode("append").save()
            with place.connect() as connection:
                blocking_redrive.mark_redriven(connection, place.keys, fresh)
    finally:
        jobs.unpersist()
    return Redriven(selected=len(found), redriven=len(fresh) - len(known))


def still_dead(spark: SparkSession, queue: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Dead letters that were not re-driven."""
    reach = _reach(options)
    place = QueueLocation(url=connection_url(reach), queue=queue)
    with place.connect() as connection:
        done = sorted(blocking_redrive.all_redriven(connection, place.keys))
    return _dead(spark, queue, reach).join(_ids(spark, done), "entry_id", "left_anti")


def _reach(options: Mapping[str, str] | None) -> dict[str, str]:
    reach = dict(options or {})
    for name in reach:
        if name.lower() in ("queue", "entity"):
            raise ConfigError(f"options must not have {name!r}: the queue is an argument of its own, target another")
    if unknown := reach.keys() - taken_by("read", reach).keys() - taken_by("write", reach).keys():
        raise ConfigError(f"options has {min(unknown)!r}, which neither reading nor writing takes")
    return reach


def _dead(spark: SparkSession, queue: str, reach: Mapping[str, str]) -> DataFrame:
    return spark.read.format("chasqui").options(**taken_by("read", reach), queue=queue, entity="dead").load()


def _ids(spark: SparkSession, entry_ids: Sequence[str]) -> DataFrame:
    return spark.createDataFrame([(entry_id,) for entry_id in entry_ids], "entry_id string")


def _chosen(dead: DataFrame, where: str | DataFrame) -> DataFrame:
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
            f"the condition {where!r} is not SQL on a dead letter: {why}. Its columns are {', '.join(COLUMNS['dead'])}"
        ) from err


def _jobs(chosen: DataFrame, repair: Repair | None) -> DataFrame:
    """Dead letters as a write takes jobs, with the retries of their own that they had."""
    attempts = F.col("max_attempts").alias("attempts")
    rows = chosen.select("entry_id", "name", "payload", _new_id().alias("id"), attempts, *_RETRY)
    if repair is None:
        return rows
    return rows.mapInArrow(_repairing(repair), ", ".join(f"{name} {kind}" for name, kind in _JOBS.items()))


def _new_id() -> Column:
    """A dead letter's own name makes the id: the same one re-driven again is the same job. Where that gets too long,
    a digest stands for the job's id."""
    plain = F.concat_ws("~", "job_id", "entry_id")
    short = F.concat_ws("~", F.sha2("job_id", 256), "entry_id")
    return F.when(F.octet_length(plain) <= MAX_JOB_ID_BYTES, plain).otherwise(short)


def _repairing(repair: Repair) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            payloads = [encode_payload(repair(decode_payload(value))) for value in batch.column("payload").to_pylist()]
            place = batch.schema.get_field_index("payload")
            yield batch.set_column(place, "payload", pa.array(payloads, batch.schema.field("payload").type))

    return work
