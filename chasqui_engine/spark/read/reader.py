"""Reading a queue in one go: `spark.read.format("chasqui")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from chasqui_engine._redis.blocking import read
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import ReadOptions
from chasqui_engine.spark.read import partition as read_partition
from chasqui_engine.spark.read.splits import IdRange
from chasqui_engine.spark.schemas import STREAMED


@dataclass
class Part(InputPartition):
    """What one task reads: a range of stream ids, or of times for the delayed set."""

    start: str
    end: str

    def __repr__(self) -> str:
        return f"{self.start}..{self.end}"


class ChasquiReader(DataSourceReader):
    """A snapshot of an entity. Stream entities are read up to where they ended when the plan was made."""

    def __init__(self, place: QueueLocation, options: ReadOptions, schema: pa.Schema) -> None:
        self._place = place
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges, one per task."""
        options, place = self._options, self._place
        with place.connect() as connection:
            if options.entity == "delayed":
                spans = read_partition.plan_delayed(
                    connection, place.keys.delayed, wanted=options.min_partitions, page_size=options.page_size
                )
                return [Part(low, high) for low, high in spans]
            if options.entity not in STREAMED:
                return [Part("", "")]
            key = place.stream_key(options.entity)
            facts = connection.patiently(lambda: read.stream_facts(connection, key))
            first = facts.first_id or facts.last_generated_id
            ranges = read_partition.plan_stream(
                connection,
                key,
                first,
                facts.last_generated_id,
                facts.length,
                wanted=options.min_partitions,
                page_size=options.page_size,
            )
            return [Part(part.start, part.end) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range."""
        assert isinstance(partition, Part)
        options, place, size = self._options, self._place, self._options.page_size
        if options.entity == "delayed":
            return read_partition.read_delayed(place, partition.start, partition.end, self._schema, size)
        if options.entity == "repeatables":
            return read_partition.read_repeatables(place, self._schema, size)
        if options.entity == "results":
            return read_partition.read_results(place, self._schema, size)
        part = IdRange(partition.start, partition.end)
        return read_partition.read_stream(place, options.entity, part, self._schema, size)
