"""A pipeline on a folder of the test's own, and events as its bronze takes them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chasqui_engine.spark.pipeline.config import PipelineConfig
from chasqui_engine.spark.pipeline.run import Pipeline
from tests.spark.integration.made_events import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = (
    "entry_id string, ts timestamp, event string, job_id string, name string, attempt int, duration_us bigint, "
    "reason string, backoff_ms bigint, delay_ms bigint"
)
COLUMNS = [column.split()[0] for column in EVENTS.split(", ")]
WINDOW_S = 3600
AFTER_BRONZE = ("silver", "gold", "report")


def pipeline(spark: SparkSession, folder: Path, queue: str = "q", **settings: Any) -> Pipeline:
    return Pipeline(spark, PipelineConfig(queues=(queue,), out=f"file://{folder}", window_s=WINDOW_S, **settings))


def frame_of(spark: SparkSession, events: list[Event]) -> DataFrame:
    rows = [tuple(moment(event[c]) if c == "ts" else event[c] for c in COLUMNS) for event in events]
    return spark.createDataFrame(rows, EVENTS)


def moment(ms: int | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)
