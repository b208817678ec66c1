"""The steps in their order. Each can be run alone, and again."""

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
from chasqui_engine.pipeline.bronze import Say
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.report import report
from chasqui_engine.spark.read.stream_reader import DataLossError

_TRIES = 6
_LOST = re.compile(r"DataLossError: (?:\[CMQ-\d+\] )?(.+)")
_TOO_SLOW = "Python worker failed to connect back"
STEPS = ("bronze", "silver", "gold", "report")


def _quiet(text: str) -> None:
    """Says nothing."""


@contextmanager
def _losses_told() -> Iterator[None]:
    """What to do about lost events is told as this pipeline's users can do it."""
    try:
        yield
    except StreamingQueryException as err:
        told = _LOST.findall(str(err))
        if not told:
            raise
        raise DataLossError(
            f"{told[-1]}. For the pipeline that is --skip-lost (in the DAGs skip_lost, in a program "
            "fail_on_data_loss=False), once; what is lost stays unknown"
        ) from err


class Pipeline:
    """One pipeline: events of some queues in, a folder with answers out."""

    def __init__(
        self, spark: SparkSession, config: PipelineConfig, say: Say = _quiet, *, now: Callable[[], float] = time.time
    ) -> None:
        self.spark = spark
        self.config = config
        self.store = Files(spark, config.out)
        self.say = say
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
        """Takes events and dead letters over; to the present end, or for ever."""
        # What failed in this session before is told to whoever asks next, and that is not us.
        self.spark.streams.resetTerminated()
        for queue in self.config.queues:
            for entity in self.config.entities:
                if continuous:
                    self._start(queue, entity, continuous=True)
                else:
                    self._take_over(queue, entity)
        if continuous:
            with _losses_told():
                self.spark.streams.awaitAnyTermination()

    def _start(self, queue: str, entity: str, *, continuous: bool) -> StreamingQuery:
        return bronze.start(self.spark, self.store, self.config, queue, entity, continuous=continuous, say=self.say)

    def _take_over(self, queue: str, entity: str) -> None:
        """Spark gives the Python process of a stream ten seconds to start, which a busy machine may not keep."""
        for tries_left in reversed(range(_TRIES)):
            try:
                with _losses_told():
                    self._start(queue, entity, continuous=False).awaitTermination()
            except StreamingQueryException as err:
                if not tries_left or _TOO_SLOW not in str(err):
                    raise
                self.say(f"bronze  {queue} {entity}: Spark's Python was slow to start, once more")
            else:
                return

    def silver(self) -> None:
        """Makes attempts of events."""
        silver.update(self.spark, self.store, self.config, self.say)

    def gold(self) -> None:
        """Makes answers of attempts."""
        gold.update(self.spark, self.store, self.config, self.config.slos(), self._now(), self.say)
        if self.config.gold_format == "delta":
            delta.update(self.spark, self.store, self.say)

    def report(self) -> dict[str, Any]:
        """Writes the page and the summary, if there is something new to say."""
        return report.update(self.spark, self.store, self.config, self.say)

    def tidy(self, today: str | None = None) -> None:
        """Puts small files together, and lets days go that are older than `keep_days`; but nothing that the steps after
        bronze have not taken in."""
        today = today or datetime.fromtimestamp(self._now(), UTC).date().isoformat()
        taken = silver.manifest(self.store)["taken"]
        for queue in self.config.queues:
            for entity in self.config.entities:
                whole = taken.get(queue, -1) if entity == "events" else bronze.last_whole(self.store, queue, entity)
                done = bronze.compact(
                    self.spark, self.store, entity, queue, processed=whole, after=self.config.compact_after
                )
                if done:
                    self.say(f"tidy    {queue} {entity}: {done} days put together")
                if self.config.keep_days is not None:
                    gone = bronze.forget(self.store, entity, queue, today, self.config.keep_days, processed=whole)
                    if gone:
                        self.say(f"tidy    {queue} {entity}: {gone} days let go")
