"""Deleting days of bronze changes no metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.spark.integration.pipeline.checks import check_gold, check_silver
from tests.spark.integration.pipeline.made_events import Event, completed, done, event
from tests.spark.integration.pipeline.pipelines import AFTER_BRONZE, pipeline, tell

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAY_MS = 86_400_000
START_MS = 1_790_000_000_000 // DAY_MS * DAY_MS + 10 * 3_600_000
FIRST_DAY, THIRD_DAY = "2026-09-21", "2026-09-23"


def failed(at: int, job_id: str, attempt: int, retry_in_ms: int) -> list[Event]:
    return [
        event("active", at, job_id, attempt=attempt),
        event("failed", at + 500, job_id, attempt=attempt, duration_us=500_000, reason="boom"),
        event("retry-scheduled", at + 500, job_id, attempt=attempt + 1, backoff_ms=retry_in_ms),
    ]


def test_jobs_that_are_alive_keep_what_their_old_events_told(spark: SparkSession, tmp_path: Path) -> None:
    work = pipeline(spark, tmp_path, keep_days=1)
    born = [
        *failed(START_MS, "retried", 1, 2 * DAY_MS),
        event("delayed", START_MS, "delayed", delay_ms=2 * DAY_MS),
        # This `waiting` is the second attempt's, which nothing has told so far.
        event("waiting", START_MS + 2000, "late"),
        *completed(START_MS, "done"),
    ]
    tell(work, 0, born)
    work.run(AFTER_BRONZE)
    work.tidy(THIRD_DAY)
    assert work.store.list_folders("bronze", "events", "q") == []
    later = START_MS + 2 * DAY_MS
    grown = [
        event("active", later + 1000, "retried", attempt=2),
        done(later + 1500, "retried", attempt=2),
        event("active", later + 20, "delayed", attempt=1),
        event("retry-scheduled", START_MS + 1000, "late", attempt=2, backoff_ms=1000),
        event("completed", later, "late", attempt=2, duration_us=1),
    ]
    tell(work, 1, grown)
    work.run(AFTER_BRONZE)
    check_gold(work, check_silver(work, [*born, *grown]))


@pytest.mark.parametrize("silver_ran", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_silver_has_not_taken_in_stays(spark: SparkSession, tmp_path: Path, silver_ran: bool) -> None:
    work = pipeline(spark, tmp_path, keep_days=1)
    events = completed(START_MS, "a")
    if silver_ran:
        tell(work, 0, completed(START_MS, "b"))
        work.run(("silver",))
        events += completed(START_MS, "b")
    tell(work, 1, completed(START_MS, "a"))
    work.tidy(THIRD_DAY)
    assert work.store.list_folders("bronze", "events", "q", f"day={FIRST_DAY}") == ["batch=000000000001"]
    work.run(("silver",))
    check_silver(work, events)
    work.tidy(THIRD_DAY)
    assert work.store.list_folders("bronze", "events", "q") == []
