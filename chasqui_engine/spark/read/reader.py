"""Reading a snapshot of a queue: `spark.read.format("chasqui")`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from chasqui_engine._redis.blocking import read
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import ReadOptions
from chasqui_engine.spark.read import partition as read_partition
from chasqui_engine.spark.read.filters import Narrowed, narrow
from chasqui_engine.spark.read.splits import IdRange
from chasqui_engine.spark.schemas import STREAMED
from chasqui_engine.spark.shipped import Shipped


@dataclass
class Part(InputPartition):
    """What one task reads: a range of stream ids, or of times for the delayed set."""

    start: str
    end: str

    def __repr__(self) -> str:
        return f"{self.start}..{self.end}"


class ChasquiReader(Shipped, DataSourceReader):
    """A snapshot of an entity. Stream entities are read up to where they ended when the plan was made."""

    def __init__(self, location: QueueLocation, options: ReadOptions, schema: pa.Schema) -> None:
        self._location = location
        self._options = options
        self._schema = schema
        self._narrowed = Narrowed()

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges, one per task."""
        options, location = self._options, self._location
        with location.connect() as connection:
            if options.entity == "delayed" and self._narrowed != Narrowed():
                return [Part(*self._narrowed.scores())]
            if options.entity == "delayed":
                spans = read_partition.plan_delayed(
                    connection, location.keys.delayed, wanted=options.min_partitions, page_size=options.page_size
                )
                return [Part(low, high) for low, high in spans]
            if options.entity not in STREAMED:
                return [Part("", "")]
            key = location.stream_key(options.entity)
            facts = connection.patiently(lambda: read.stream_facts(connection, key))
            whole = self._narrowed.range_within(facts.first_id or facts.last_generated_id, facts.last_generated_id)
            ranges = read_partition.plan_stream(
                connection,
                key,
                whole.start,
                whole.end,
                facts.length,
                wanted=options.min_partitions,
                page_size=options.page_size,
            )
            return [Part(part.start, part.end) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range."""
        assert isinstance(partition, Part)
        options, location, size = self._options, self._location, self._options.page_size
        if options.entity == "delayed":
            return read_partition.read_delayed(location, partition.start, partition.end, self._schema, size)
        if options.entity == "repeatables":
            return read_partition.read_repeatables(location, self._schema, size)
        if options.entity == "results":
            return read_partition.read_results(location, self._schema, size)
        part = IdRange(partition.start, partition.end)
        return read_partition.read_stream(location, options.entity, part, self._schema, size)


class FilteringReader(ChasquiReader):
    """A reader that is given the filters of the query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Reads less by them; Spark evaluates all of them again."""
        self._narrowed = narrow(self._options.entity, filters)
        return filters


def choose_reader() -> type[ChasquiReader]:
    """The reader that this session can have: where `spark.sql.python.filterPushdown.enabled` is off, Spark raises an
    error for one that takes filters. Where it is on, Spark asks in a process that has imported this module."""
    return FilteringReader if "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules else ChasquiReader
