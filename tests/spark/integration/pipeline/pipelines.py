"""A pipeline on a folder of the test's own, and events as its bronze takes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.pipeline import bronze
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.run import Pipeline
from tests.spark.integration.pipeline.made_events import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = (
    "entry_id string, ts timestamp, event string, job_id string, name string, attempt bigint, duration_us bigint, "
    "reason string, backoff_ms bigint, delay_ms bigint, enqueued_at timestamp"
)
COLUMNS = [column.split()[0] for column in EVENTS.split(", ")]
TIMES = ("ts", "enqueued_at")
WINDOW_S = 3600
AFTER_BRONZE = ("silver", "gold", "report")


def pipeline(
    spark: SparkSession, folder: Path, queue: str = "q", *, now: Callable[[], float] = time.time, **settings: Any
) -> Pipeline:
    config = PipelineConfig(**{"queues": (queue,), "out": f"file://{folder}", "window_s": WINDOW_S, **settings})
    return Pipeline(spark, config, now=now)


def tell(work: Pipeline, batch: int, events: list[Event]) -> None:
    """Puts events into bronze as one batch."""
    (queue,) = work.config.queues
    bronze.write_batch(work.store, queue, "events", frame_of(work.spark, events), batch)


def frame_of(spark: SparkSession, events: list[Event]) -> DataFrame:
    rows = [tuple(moment(event[c]) if c in TIMES else event[c] for c in COLUMNS) for event in events]
    return spark.createDataFrame(rows, EVENTS)


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC)


def in_utc(collected: datetime | None) -> datetime | None:
    """Spark gives times in the machine's zone, and does not say so."""
    return None if collected is None else collected.astimezone(UTC)


@contextmanager
def far_from_utc(spark: SparkSession) -> Iterator[None]:
    """Machine and session are in another zone, where a day of UTC ends in the evening."""
    before = spark.conf.get("spark.sql.session.timeZone")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/Lima")
        time.tzset()
        spark.conf.set("spark.sql.session.timeZone", "America/Lima")
        try:
            yield
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(before))
    time.tzset()
