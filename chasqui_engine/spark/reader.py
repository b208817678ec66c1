"""Reading a queue in one go: `spark.read.format("chasqui")`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from chasqui_engine._redis import bulk_reading
from chasqui_engine.spark import fetch
from chasqui_engine.spark.fetch import Place
from chasqui_engine.spark.options import ReadOptions
from chasqui_engine.spark.schemas import STREAMED
from chasqui_engine.spark.splits import IdRange


@dataclass
class Part(InputPartition):
    """What one task reads: a range of stream ids, or of times for the delayed set."""

    start: str
    end: str

    def __repr__(self) -> str:
        return f"{self.start}..{self.end}"


class ChasquiReader(DataSourceReader):
    """A snapshot of an entity. Stream entities are read up to where they ended when the plan was made."""

    def __init__(self, place: Place, options: ReadOptions, schema: pa.Schema) -> None:
        self._place = place
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges, one per task."""
        options, place = self._options, self._place
        with place.connect() as connection:
            if options.entity == "delayed":
                spans = fetch.plan_delayed(
                    connection, place.keys.delayed, wanted=options.min_partitions, page_size=options.page_size
                )
                return [Part(low, high) for low, high in spans]
            if options.entity not in STREAMED:
                return [Part("", "")]
            key = place.stream_key(options.entity)
            facts = connection.patiently(lambda: bulk_reading.stream_facts(connection, key))
            first = facts.first_id or facts.last_generated_id
            ranges = fetch.plan_stream(
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
            return fetch.read_delayed(place, partition.start, partition.end, self._schema, size)
        if options.entity == "repeatables":
            return fetch.read_repeatables(place, self._schema, size)
        if options.entity == "results":
            return fetch.read_results(place, self._schema, size)
        part = IdRange(partition.start, partition.end)
        return fetch.read_stream(place, options.entity, part, self._schema, size)
