"""Rows into a queue: `df.write.format("chasqui")` and `df.writeStream.format("chasqui")`.

The writer is made on the driver, pickled, and run in the tasks; what it learns there does not come back, except in
the message that `write` returns.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from chasqui_engine._redis import bulk_writing
from chasqui_engine._redis.bulk_connection import BulkConnection
from chasqui_engine._redis.bulk_writing import ChunkPipe, Fence, Limits
from chasqui_engine.clock import monotonic
from chasqui_engine.errors import ChasquiError, ConfigError, QueueFullError
from chasqui_engine.spark.fence import check_write_id, chunk_name, stream_write_id
from chasqui_engine.spark.fetch import Place
from chasqui_engine.spark.options import WriteOptions
from chasqui_engine.spark.rows import Chunk, chunks
from chasqui_engine.spark.write_schema import check_schema

_STRAGGLERS_S = 3600
"""How long a copy of a task may still come after its write was committed."""
_PACE_S = 0.25
"""At a limited rate, a chunk is at most what may pass in this time."""


class NotRepeatableError(ChasquiError):
    """A task that was run again had other rows than the first time."""

    code = "CMQ-031"


@dataclass
class Written(WriterCommitMessage):
    """What one task did."""

    rows: int
    added: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where rows go, and how each is kept from going there twice."""

    place: Place
    options: WriteOptions
    fenced: bool
    """By chunk; else each row by its id, or not at all."""
    by_id: bool

    @staticmethod
    def checked(place: Place, options: WriteOptions, schema: StructType) -> Target:
        """Checks the schema; nothing was written so far."""
        check_schema({field.name: field.dataType.simpleString() for field in schema.fields}, options)
        has_id = "id" in schema.fieldNames()
        fence = options.fence or ("id" if has_id else "chunk")
        if fence == "id" and not has_id:
            raise ConfigError("fence=id needs a column id")
        if options.write_id is not None:
            check_write_id(options.write_id)
        return Target(place=place, options=options, fenced=fence == "chunk", by_id=has_id)

    @property
    def safe_to_resend(self) -> bool:
        """Whether a chunk may be sent again when nobody knows if it arrived."""
        return self.fenced or self.by_id


class ChasquiWriter(DataSourceArrowWriter):
    """One write of a DataFrame. Its id is made here, once, so that all tasks and all their copies share it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._write_id = target.options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: writes the rows of one partition."""
        return write_partition(self._target, self._write_id, _partition(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All rows are in. The fence of a write nobody can name goes after a while."""
        if self._target.fenced and self._target.options.write_id is None:
            with self._target.place.connect() as connection:
                bulk_writing.shorten_fence(connection, self._target.place.keys, self._write_id, _STRAGGLERS_S)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good. What others wrote stays: the same writeId goes on from there."""


class ChasquiStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a query, each fenced by the query's id and the batch's number."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: writes the rows of one partition of a micro-batch."""
        query_id, batch_id = _query_and_batch()
        written = write_partition(self._target, stream_write_id(query_id, batch_id), _partition(), iterator)
        return replace(_StreamWritten(written.rows, written.added), query_id=query_id)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """The batch is in. The batch before can never come again, so its fence goes."""
        query_ids = {message.query_id for message in messages if isinstance(message, _StreamWritten)}
        if not self._target.fenced or batchId < 1 or not query_ids:
            return
        with self._target.place.connect() as connection:
            for query_id in query_ids:
                write_id = stream_write_id(query_id, batchId - 1)
                bulk_writing.drop_fence(connection, self._target.place.keys, write_id)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The batch will come again, with the same fence."""


@dataclass
class _StreamWritten(Written):
    query_id: str = ""


def write_partition(target: Target, write_id: str, partition: int, batches: Iterator[pa.RecordBatch]) -> Written:
    """Writes batches in chunks, one in flight."""
    options = target.options
    size = options.chunk_size
    if options.max_rows_per_s is not None:
        size = max(1, min(size, int(options.max_rows_per_s * _PACE_S)))
    task = _Task(target, write_id, partition)
    try:
        for batch in batches:
            for chunk in chunks(batch, size, options.payload_format, options.max_delay_s):
                task.write(chunk)
        task.settle()
    finally:
        task.close()
    return Written(task.rows, task.added)


class _Task:
    """One partition's way to the server."""

    def __init__(self, target: Target, write_id: str, partition: int) -> None:
        self._target = target
        self._write_id = write_id
        self._partition = partition
        self._keys = target.place.keys
        self._connection: BulkConnection = target.place.connect()
        self._pipe = ChunkPipe(self._connection)
        self._in_flight: Chunk | None = None
        self._number = 0
        self.rows = 0
        self.added = 0

    def write(self, chunk: Chunk) -> None:
        """Sends a chunk, once the one before is in."""
        options = self._target.options
        self.settle()
        if options.max_rows_per_s is not None:
            rate = options.max_rows_per_s
            connection = self._connection
            wait_s = connection.patiently(
                lambda: bulk_writing.book(connection, self._keys, self._write_id, chunk.rows, rate)
            )
            time.sleep(wait_s)
        fence = Fence(
            write_id=self._write_id,
            chunk=chunk_name(self._partition, self._number) if self._target.fenced else "",
            digest=chunk.digest,
            ttl_s=options.fence_ttl_s,
        )
        limits = Limits(
            max_stream_len=options.max_stream_len,
            trim=options.when_full == "trim",
            taken_ttl_s=options.dedup_ttl_s,
            events_max=options.events_max,
        )
        if chunk.plain is not None:
            self._pipe.submit(*bulk_writing.chunk_command(self._keys, fence, limits, chunk.plain))
        else:
            self._pipe.submit(*bulk_writing.mixed_chunk_command(self._keys, fence, limits, chunk.mixed))
        self._in_flight = chunk
        self._number += 1

    def settle(self) -> None:
        """Waits for the chunk in flight."""
        chunk, self._in_flight = self._in_flight, None
        if chunk is None:
            return
        reply = self._reply()
        if reply == bulk_writing.WRITTEN_OTHERWISE:
            raise NotRepeatableError(
                f"partition {self._partition}, chunk {self._number - 1} of write {self._write_id} is in queue "
                f"{self._keys.queue!r} with other rows: this plan gives other rows, or in another order, when run "
                "again. Give the rows an id column, so that each is known by its id, or sort or cache them first. Or "
                "chunkSize or maxRowsPerSecond is not what it was: what was begun is ended with the same"
            )
        self.rows += chunk.rows
        self.added += max(0, reply)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def _reply(self) -> int:
        options = self._target.options
        reply = self._pipe.settle(safe_to_resend=self._target.safe_to_resend)
        give_up_at = monotonic() + options.full_timeout_s
        while reply == bulk_writing.FULL:
            if options.when_full != "wait" or monotonic() > give_up_at:
                raise QueueFullError(
                    f"queue {self._keys.queue!r} has no room within maxStreamLen={options.max_stream_len}. Let workers "
                    "catch up, raise maxStreamLen, or set whenFull to wait (or trim, which drops the oldest). A write "
                    "that is run again with the same writeId goes on where it stopped"
                )
            time.sleep(_PACE_S)
            self._pipe.resubmit()
            reply = self._pipe.settle(safe_to_resend=self._target.safe_to_resend)
        return reply


def _context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise ConfigError("rows are written by Spark's tasks only")
    return context


def _partition() -> int:
    number: int = _context().partitionId()
    return number


def _query_and_batch() -> tuple[str, str]:
    context = _context()
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    if not query_id or batch_id is None:
        raise ConfigError("this Spark does not tell its tasks which query and batch they belong to")
    return query_id, batch_id
