"""Following a queue: `spark.readStream.format("chasqui")`. Offsets are stream ids; nothing in Redis is changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from chasqui_engine._redis.blocking import read
from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.blocking.read import StreamFacts
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import ReadOptions
from chasqui_engine.spark.read import offsets
from chasqui_engine.spark.read import partition as read_partition
from chasqui_engine.spark.read.offsets import Loss, Offset
from chasqui_engine.spark.read.partition import LossDetector
from chasqui_engine.spark.read.splits import IdRange
from chasqui_engine.spark.shipped import Shipped
from chasqui_engine.values.errors import ChasquiError
from chasqui_engine.values.stream_ids import after, as_number, before

_log = logging.getLogger("chasqui.spark")


class DataLossError(ChasquiError):
    """Entries were trimmed before they were read."""

    code = "CMQ-315"


@dataclass
class StreamPart(InputPartition):
    """What one task of a micro-batch reads, both ends included."""

    start: str
    end: str
    first: str | None
    """The entry with which it began when the batch was planned."""
    begin: Offset
    """The start of the batch."""
    leads: bool
    """Whether it is the first part of the batch: then the number of rows before an entry is known."""


class ChasquiStreamReader(Shipped, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans by ids on the driver; `read` runs in the tasks and keeps no state."""

    def __init__(self, location: QueueLocation, options: ReadOptions, schema: pa.Schema) -> None:
        self._location = location
        self._options = options
        self._schema = schema
        self._target: Offset | None = None
        self._planned: Offset | None = None
        """Where the latest micro-batch ends."""
        self._connection: BulkConnection | None = None
        self._begin = offsets.starting_id(options.starting_offsets, options.starting_timestamp)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins. Spark calls it twice."""
        facts = self._facts()
        if self._begin is not None:
            return self._offset_of_id(self._begin, facts).to_dict()
        at = offsets.latest(facts) if self._options.starting_offsets == "latest" else offsets.earliest(facts)
        return at.to_dict()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends. Changes nothing in Redis."""
        begin = Offset.of(start)
        facts = self._facts()
        target = self._target or offsets.latest(facts)
        if as_number(facts.last_generated_id) <= as_number(begin.id) or as_number(target.id) <= as_number(begin.id):
            self._planned = begin
            return start
        if isinstance(limit, ReadMaxRows):
            last_id, rows = self._walk(begin.id, target.id, limit.max_rows)
            # With fewer entries left than that, the batch ends at the target; with none, they were all deleted.
            if last_id is not None and rows == limit.max_rows:
                target = offsets.advance(begin, last_id, rows, facts)
        self._planned = target
        return replace(target, cuts=self._cuts(begin, target, facts)).to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxRowsPerTrigger`, if given."""
        most = self._options.max_rows_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Entries added after this are left to the next run."""
        self._target = offsets.latest(self._facts())

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """For the query's progress: the end of the stream, and how far behind it the query will be after its batch."""
        end = offsets.latest(self._facts())
        return {**end.to_dict(), **({} if self._planned is None else offsets.lag(self._planned, end))}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a micro-batch; reports entries before them that are lost."""
        begin, until = Offset.of(start), Offset.of(end)
        if as_number(until.id) <= as_number(begin.id):
            return []
        # Read before the facts, which then include what is trimmed in between.
        first, _ = self._walk(begin.id, until.id, 1)
        self._report_loss(offsets.loss_since(begin, self._facts(), deletes=self._deletes_entries), begin.id)
        starts = [after(begin.id), *until.cuts]
        ends = [*map(before, until.cuts), until.id]
        lead = first if first is not None and as_number(first) <= as_number(ends[0]) else None
        return [
            StreamPart(low, high, lead if number == 0 else low, begin, number == 0)
            for number, (low, high) in enumerate(zip(starts, ends, strict=True))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range; reports entries that were trimmed while it was read."""
        assert isinstance(partition, StreamPart)
        options = self._options
        key = self._location.stream_key(options.entity)

        def report_gone(connection: BulkConnection, entry_id: str, rows: int) -> None:
            facts = connection.patiently(lambda: read.stream_facts(connection, key))
            known = rows if partition.leads else None
            loss = offsets.loss_past(partition.begin, entry_id, known, facts, deletes=self._deletes_entries)
            self._report_loss(loss, entry_id if rows else before(entry_id))

        part, watch = IdRange(partition.start, partition.end), LossDetector(partition.first, report_gone)
        return read_partition.read_stream(self._location, options.entity, part, self._schema, options.page_size, watch)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: entries stay in Redis."""

    def stop(self) -> None:
        """Closes the driver's connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def _open(self) -> BulkConnection:
        if self._connection is None:
            self._connection = self._location.connect()
        return self._connection

    def _facts(self) -> StreamFacts:
        connection = self._open()
        key = self._location.stream_key(self._options.entity)
        return connection.patiently(lambda: read.stream_facts(connection, key))

    def _offset_of_id(self, begin: str, facts: StreamFacts) -> Offset:
        """The offset of an id, with its count: all that was ever added, less what comes after it."""
        if facts.added is None or facts.first_id is None or as_number(begin) >= as_number(facts.last_generated_id):
            return Offset(begin)
        if as_number(begin) < as_number(facts.first_id):
            return Offset(begin, facts.added - facts.length)
        if facts.max_deleted_id is None or as_number(facts.max_deleted_id) > as_number(begin):
            return Offset(begin)
        _, rows = self._walk(begin, facts.last_generated_id, facts.length)
        return Offset(begin, facts.added - rows)

    def _walk(self, begin: str, until: str, most: int) -> tuple[str | None, int]:
        """The id of the `most`-th entry after `begin`, or of the last; and how many entries that is."""
        key = self._location.stream_key(self._options.entity)
        return read_partition.walk(self._open(), key, after(begin), until, most, self._options.page_size)

    def _cuts(self, begin: Offset, until: Offset, facts: StreamFacts) -> tuple[str, ...]:
        """Where the entries between two offsets are cut into partitions."""
        rows = -1 if begin.added is None or until.added is None else until.added - begin.added
        ranges = read_partition.plan_stream(
            self._open(),
            self._location.stream_key(self._options.entity),
            after(begin.id),
            until.id,
            min(rows, facts.length) if rows >= 0 else facts.length,
            wanted=self._options.min_partitions,
            page_size=self._options.page_size,
        )
        return tuple(part.start for part in ranges[1:])

    @property
    def _deletes_entries(self) -> bool:
        """Whether entries are deleted by id in normal work: jobs by an ack, dead letters by a replay."""
        return self._options.entity != "events"

    def _report_loss(self, loss: Loss, after_id: str) -> None:
        if not loss.certain and not loss.most:
            return
        text = offsets.describe_loss(self._options.entity, self._location.queue, after_id, loss)
        if loss.certain and self._options.fail_on_data_loss:
            raise DataLossError(text)
        # Acked jobs are no reason for a warning.
        _log.log(logging.INFO if self._options.entity == "jobs" and not loss.certain else logging.WARNING, "%s", text)
