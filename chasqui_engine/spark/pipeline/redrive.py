"""The way back: dead letters, selected by a SQL condition, repaired by a function, enqueued again, and marked.

Each is enqueued under its own id with the suffix of its dead letter, so that running a redrive again adds nothing. The
dead letter stays where it is; that it was re-driven is kept beside it, and `still_dead` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine._redis import bulk_marks
from chasqui_engine.codec import decode_payload, encode_payload
from chasqui_engine.spark.connections import connection_url
from chasqui_engine.spark.fetch import Place

Repair = Callable[[Any], Any]
"""Given a payload, returns the one to run with."""

_COLUMNS = "entry_id string, name string, payload binary, id string, attempts int"


@dataclass(frozen=True, slots=True)
class Redriven:
    """What a redrive did."""

    selected: int
    redriven: int
    """Selected, and not re-driven before."""


def redrive(
    spark: SparkSession,
    queue: str,
    *,
    where: str | DataFrame,
    repair: Repair | None = None,
    options: Mapping[str, str] | None = None,
    target: str | None = None,
) -> Redriven:
    """Makes jobs of dead letters: those that a SQL condition on `dead` picks, or a frame with their `entry_id`."""
    reach = dict(options or {})
    place = Place(url=connection_url(reach), queue=queue)
    dead = spark.read.format("chasqui").options(**reach, queue=queue, entity="dead").load()
    chosen = (
        dead.where(where) if isinstance(where, str) else dead.join(where.select("entry_id"), "entry_id", "left_semi")
    )
    chosen = chosen.where("job_id is not null")
    # A dead letter's own name makes the id: the same one re-driven again is the same job.
    new_id = F.concat_ws("~", "job_id", "entry_id")
    rows = chosen.select("entry_id", "name", "payload", new_id.alias("id"), F.col("max_attempts").alias("attempts"))
    jobs = rows.mapInArrow(_repairing(repair), _COLUMNS).persist()
    try:
        ids = [row.entry_id for row in jobs.select("entry_id").collect()]
        with place.connect() as connection:
            done = bulk_marks.redriven(connection, place.keys, ids)
        fresh = [entry_id for entry_id in ids if entry_id not in done]
        if fresh:
            wanted = jobs.where(F.col("entry_id").isin(*fresh)) if len(fresh) < len(ids) else jobs
            writer = wanted.drop("entry_id").write.format("chasqui").options(**reach, queue=target or queue)
            writer.option("dedupTtlSeconds", str(30 * 86_400)).mode("append").save()
            with place.connect() as connection:
                bulk_marks.mark_redriven(connection, place.keys, fresh)
    finally:
        jobs.unpersist()
    return Redriven(selected=len(ids), redriven=len(fresh))


def still_dead(spark: SparkSession, queue: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Dead letters that were not re-driven."""
    reach = dict(options or {})
    place = Place(url=connection_url(reach), queue=queue)
    dead = spark.read.format("chasqui").options(**reach, queue=queue, entity="dead").load()
    with place.connect() as connection:
        done = sorted(bulk_marks.all_redriven(connection, place.keys))
    marked = spark.createDataFrame([(entry_id,) for entry_id in done], "entry_id string")
    return dead.join(marked, "entry_id", "left_anti")


def _repairing(repair: Repair | None) -> Callable[[Any], Any]:
    def work(batches: Any) -> Any:
        for batch in batches:
            if repair is None:
                yield batch
                continue
            payloads = [encode_payload(repair(decode_payload(value))) for value in batch.column("payload").to_pylist()]
            place = batch.schema.get_field_index("payload")
            yield batch.set_column(place, "payload", pa.array(payloads, batch.schema.field("payload").type))

    return work
