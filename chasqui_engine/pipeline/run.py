"""The steps in order. Each can be run alone, and again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from chasqui_engine.pipeline import bronze, delta, gold, silver
from chasqui_engine.pipeline.bronze import Progress
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.report import report
from chasqui_engine.spark.read.stream_reader import DataLossError

_TRIES = 6
_LOST = re.compile(r"DataLossError: (?:\[CMQ-\d+\] )?(.+)")
_TOO_SLOW = "Python worker failed to connect back"
STEPS = ("bronze", "silver", "gold", "report")


def _ignore(text: str) -> None:
    """Prints nothing."""


@contextmanager
def _explain_losses() -> Iterator[None]:
    """Adds to an error about lost events what users of the pipeline can do about it."""
    try:
        yield
    except StreamingQueryException as err:
        losses = _LOST.findall(str(err))
        if not losses:
            raise
        raise DataLossError(
            f"{losses[-1]}. For the pipeline that is --skip-lost (in the DAGs skip_lost, in a program "
            "fail_on_data_loss=False), once; what the lost events said stays unknown"
        ) from err


class Pipeline:
    """One pipeline: the events of some queues in, a folder with metrics and a report out."""

    def __init__(
        self,
        spark: SparkSession,
        config: PipelineConfig,
        progress: Progress = _ignore,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.spark = spark
        self.config = config
        self.store = Files(spark, config.out)
        self.progress = progress
        self._now = now

    def run(self, steps: tuple[str, ...] = STEPS) -> dict[str, Any] | None:
        """Runs steps; returns the summary if the report is one of them."""
        summary = None
        for step in STEPS:
            if step in steps:
                found = getattr(self, step)()
                summary = found if step == "report" else summary
        return summary

    def bronze(self, *, continuous: bool = False) -> None:
        """Copies events and dead letters; to their present end, or until stopped."""
        # Spark raises the failure of an earlier query of this session at the next await, which is not about that one.
        self.spark.streams.resetTerminated()
        for queue in self.config.queues:
            for entity in self.config.entities:
                if continuous:
                    self._start(queue, entity, continuous=True)
                else:
                    self._copy(queue, entity)
        if continuous:
            with _explain_losses():
                self.spark.streams.awaitAnyTermination()

    def _start(self, queue: str, entity: str, *, continuous: bool) -> StreamingQuery:
        return bronze.start(
            self.spark, self.store, self.config, queue, entity, continuous=continuous, progress=self.progress
        )

    def _copy(self, queue: str, entity: str) -> None:
        """Spark gives the Python process of a stream ten seconds to start, which is too short on a busy machine."""
        for tries_left in reversed(range(_TRIES)):
            try:
                with _explain_losses():
                    self._start(queue, entity, continuous=False).awaitTermination()
            except StreamingQueryException as err:
                if not tries_left or _TOO_SLOW not in str(err):
                    raise
                self.progress(f"bronze  {queue} {entity}: Spark's Python process took too long to start; retrying")
            else:
                return

    def silver(self) -> None:
        """Builds attempts from events."""
        silver.update(self.spark, self.store, self.config, self.progress)

    def gold(self) -> None:
        """Builds metrics from attempts."""
        gold.update(self.spark, self.store, self.config, self.config.slos(), self._now(), self.progress)
        if self.config.gold_format == "delta":
            delta.update(self.spark, self.store, self.progress)

    def report(self) -> dict[str, Any]:
        """Writes the page and the summary, if gold has changed."""
        return report.update(self.spark, self.store, self.config, self.progress)

    def page_link(self) -> str:
        """Where the report's page is, as a link."""
        return self.store.link("report", "index.html")

    def tidy(self, today: str | None = None) -> None:
        """Merges small files, and deletes days of bronze before `keep_days`; nothing that silver has not read."""
        today = today or datetime.fromtimestamp(self._now(), UTC).date().isoformat()
        taken = silver.read_manifest(self.store)["taken"]
        for queue in self.config.queues:
            for entity in self.config.entities:
                complete = (
                    taken.get(queue, -1)
                    if entity == "events"
                    else bronze.last_complete_batch(self.store, queue, entity)
                )
                done = bronze.compact(
                    self.spark, self.store, entity, queue, processed=complete, after=self.config.compact_after
                )
                if done:
                    self.progress(f"tidy    {queue} {entity}: {done} days compacted")
                if self.config.keep_days is not None:
                    gone = bronze.expire(self.store, entity, queue, today, self.config.keep_days, processed=complete)
                    if gone:
                        self.progress(f"tidy    {queue} {entity}: {gone} days deleted")
