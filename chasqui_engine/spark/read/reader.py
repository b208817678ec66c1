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
from chasqui_engine.spark.read.matches import Matches, find_matches, keep_matching, take
from chasqui_engine.spark.read.offsets import timestamp_ms
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
        self._narrowed = _within(options)
        self._matches: Matches = {}

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges, one per task. What is limited is read by one."""
        options, location, narrowed = self._options, self._location, self._narrowed
        with location.connect() as connection:
            wanted = options.min_partitions if options.limit is None else 1
            if options.entity == "delayed":
                spans = read_partition.plan_delayed(
                    connection, location.keys.delayed, narrowed, wanted=wanted, page_size=options.page_size
                )
                return [Part(low, high) for low, high in spans]
            if options.entity not in STREAMED:
                return [Part("", "")]
            key = location.stream_key(options.entity)
            facts = connection.patiently(lambda: read.stream_facts(connection, key))
            whole = narrowed.range_within(facts.first_id or facts.last_generated_id, facts.last_generated_id)
            ranges = read_partition.plan_stream(
                connection, key, whole.start, whole.end, facts.length, wanted=wanted, page_size=options.page_size
            )
            return [Part(part.start, part.end) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range."""
        assert isinstance(partition, Part)
        batches = keep_matching(self._read_all(partition), self._matches)
        return batches if self._options.limit is None else take(batches, self._options.limit)

    def _read_all(self, part: Part) -> Iterator[pa.RecordBatch]:
        options, location, schema = self._options, self._location, self._schema
        size = options.page_size if options.limit is None else min(options.page_size, options.limit)
        if options.entity == "delayed":
            return read_partition.read_delayed(location, part.start, part.end, schema, size)
        if options.entity == "repeatables":
            return read_partition.read_repeatables(location, schema, size)
        if options.entity == "results":
            return read_partition.read_results(location, schema, size, self._matches)
        if options.entity == "counts":
            return read_partition.read_counts(location, schema)
        ids = IdRange(part.start, part.end)
        return read_partition.read_stream(location, options.entity, ids, schema, size, most=options.limit)


class FilteringReader(ChasquiReader):
    """A reader that is given the filters of the query."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Reads less by them; Spark evaluates all of them again. A limit counts rows before any filter."""
        if self._options.limit is None:
            self._narrowed = narrow(self._options.entity, filters, self._narrowed)
            self._matches = find_matches(self._options.entity, filters)
        return filters


def _within(options: ReadOptions) -> Narrowed:
    """The range that the options name: from one time until before another."""
    start, end = options.starting_timestamp, options.ending_timestamp
    return Narrowed(
        from_ms=None if start is None else timestamp_ms(start),
        until_ms=None if end is None else timestamp_ms(end) - 1,
    )


def choose_reader() -> type[ChasquiReader]:
    """The reader that this session can have: where `spark.sql.python.filterPushdown.enabled` is off, Spark raises an
    error for one that takes filters. Where it is on, Spark asks in a process that has imported this module."""
    return FilteringReader if "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules else ChasquiReader
