"""Following a queue: `spark.readStream.format("chasqui")`. Offsets are stream ids; nothing in Redis is changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from chasqui_engine._redis import bulk_reading
from chasqui_engine._redis.bulk_connection import BulkConnection
from chasqui_engine._redis.bulk_reading import StreamFacts
from chasqui_engine.errors import ChasquiError
from chasqui_engine.spark import fetch, offsets
from chasqui_engine.spark.fetch import Place
from chasqui_engine.spark.offsets import Offset
from chasqui_engine.spark.options import ReadOptions
from chasqui_engine.spark.splits import IdRange
from chasqui_engine.spark.stream_ids import after, as_number

_log = logging.getLogger("chasqui")


class DataLossError(ChasquiError):
    """Entries were trimmed away before they were read."""

    code = "CMQ-030"


@dataclass
class StreamPart(InputPartition):
    """What one task of a micro-batch reads, both ends included."""

    start: str
    end: str
    cut: bool
    """Whether `start` is an entry that was there when the batch was planned."""


class ChasquiStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's half plans by ids; `read` runs in the tasks and keeps no state."""

    def __init__(self, place: Place, options: ReadOptions, schema: pa.Schema) -> None:
        self._place = place
        self._options = options
        self._schema = schema
        self._target: Offset | None = None
        self._connection: BulkConnection | None = None
        self._begin = offsets.starting_id(options.starting_offsets, options.starting_timestamp)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins. Spark asks twice."""
        facts = self._facts()
        if self._begin is not None:
            return self._named_start(self._begin, facts).to_dict()
        at = offsets.latest(facts) if self._options.starting_offsets.strip() == "latest" else offsets.earliest(facts)
        return at.to_dict()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next micro-batch ends. Only looks."""
        begin = Offset.of(start)
        facts = self._facts()
        if as_number(facts.last_generated_id) <= as_number(begin.id):
            return start
        target = self._target or offsets.latest(facts)
        if as_number(target.id) <= as_number(begin.id):
            return start
        if isinstance(limit, ReadMaxRows):
            last_id, rows = self._walk(begin.id, target.id, limit.max_rows)
            # Nothing left of what was added meanwhile: it was deleted, and there is nothing to read up to there.
            at_end = last_id is None or rows < limit.max_rows
            return target.to_dict() if at_end else offsets.advanced(begin, str(last_id), rows, facts).to_dict()
        return target.to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxRowsPerTrigger`, if given."""
        most = self._options.max_rows_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes after this is for another run."""
        self._target = offsets.latest(self._facts())

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """For the query's progress."""
        return offsets.latest(self._facts()).to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The ranges of a micro-batch; says if something before them is lost."""
        begin, until = Offset.of(start), Offset.of(end)
        if as_number(until.id) <= as_number(begin.id):
            return []
        facts = self._facts()
        self._check_loss(begin, facts)
        rows = facts.length if begin.added is None or until.added is None else until.added - begin.added
        key = self._place.stream_key(self._options.entity)
        ranges = fetch.plan_stream(
            self._open(),
            key,
            after(begin.id),
            until.id,
            min(rows, facts.length),
            wanted=self._options.min_partitions,
            page_size=self._options.page_size,
        )
        return [StreamPart(part.start, part.end, number > 0) for number, part in enumerate(ranges)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range."""
        assert isinstance(partition, StreamPart)
        part = IdRange(partition.start, partition.end)
        options = self._options

        def check(connection: BulkConnection) -> None:
            if partition.cut and options.entity == "events":
                _check_cut(connection, self._place, options, partition.start)

        return fetch.read_stream(self._place, options.entity, part, self._schema, options.page_size, check)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: what was read stays in Redis, for others."""

    def stop(self) -> None:
        """Ends the driver's connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_connection": None}

    def _open(self) -> BulkConnection:
        if self._connection is None:
            self._connection = self._place.connect()
        return self._connection

    def _facts(self) -> StreamFacts:
        connection = self._open()
        key = self._place.stream_key(self._options.entity)
        return connection.patiently(lambda: bulk_reading.stream_facts(connection, key))

    def _named_start(self, begin: str, facts: StreamFacts) -> Offset:
        """An id that the user named, with its count: what was ever added, less what comes after it."""
        if facts.added is None or facts.first_id is None or as_number(begin) >= as_number(facts.last_generated_id):
            return Offset(begin)
        if as_number(begin) < as_number(facts.first_id):
            return Offset(begin, facts.added - facts.length)
        if as_number(facts.max_deleted_id) > as_number(begin):
            return Offset(begin)
        _, rows = self._walk(begin, facts.last_generated_id, facts.length)
        return Offset(begin, facts.added - rows)

    def _walk(self, begin: str, until: str, most: int) -> tuple[str | None, int]:
        """The id of the `most`-th entry after `begin`, or of the last; and how many entries that is."""
        key = self._place.stream_key(self._options.entity)
        return fetch.walk(self._open(), key, after(begin), until, most, self._options.page_size)

    def _check_loss(self, begin: Offset, facts: StreamFacts) -> None:
        loss = offsets.loss_since(begin, facts)
        if loss.trimmed:
            text = offsets.loss_text(self._options.entity, self._place.queue, begin, loss.trimmed)
            if self._options.fail_on_data_loss:
                raise DataLossError(text)
            _log.warning("%s", text)


def _check_cut(connection: BulkConnection, place: Place, options: ReadOptions, start: str) -> None:
    """A range begins with an entry that was there when the batch was planned; if it is gone, a trim passed it."""
    if not options.fail_on_data_loss:
        return
    key = place.stream_key(options.entity)
    if bulk_reading.sample_ids(connection, key, [start], start, 1)[0]:
        return
    raise DataLossError(
        f"the {options.entity} of queue {place.queue!r} were trimmed past {start} while this batch was read. "
        "Raise the stream's maximum length; .option('failOnDataLoss', 'false') goes on with what is there"
    )
