"""What a writing task does: the rows of one partition, in chunks, each once.

A task of the run that began a write puts its chunks into the queue. A task of a later run of the same write (it was
named by the user, or a stream was restarted) passes over the chunks that are in, and puts those that are missing aside:
whether they are missing, or only fall otherwise because the rows are partitioned otherwise, is known when all tasks
have been seen. See `resume.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from chasqui_engine._redis.blocking import fence as blocking_fence
from chasqui_engine._redis.blocking import write
from chasqui_engine._redis.blocking.fence import Begun
from chasqui_engine._redis.blocking.write import Command, Fence, Limits
from chasqui_engine._redis.commands.scripts import Script
from chasqui_engine.spark.write.chunks import Chunk, chunks
from chasqui_engine.spark.write.fence import WriteRun, chunk_name
from chasqui_engine.spark.write.target import ChunkSender, NotRepeatableError, Target


@dataclass
class Written(WriterCommitMessage):
    """What one task did."""

    run: WriteRun
    partition: int
    chunks: int = 0
    rows: int = 0
    aside: dict[str, int] = field(default_factory=dict)
    """Chunks that were put aside, and how many rows each has."""


def write_partition(target: Target, run: WriteRun, partition: int, batches: Iterator[pa.RecordBatch]) -> Written:
    """Writes batches in chunks, one in flight."""
    options = target.options
    task = _Task(target, run, partition)
    try:
        for chunk in chunks(batches, target.chunk_size, options.payload_format, options.max_delay_s):
            task.write(chunk)
        task.settle()
    finally:
        task.close()
    return task.written


class _Task:
    """One partition's way to the server."""

    def __init__(self, target: Target, run: WriteRun, partition: int) -> None:
        self._target = target
        self._run = run
        self._way = ChunkSender(target, run.write_id)
        self._in_flight: Chunk | None = None
        self._begun: Begun | None = None
        self.written = Written(run, partition)

    def write(self, chunk: Chunk) -> None:
        """Sends a chunk, once the one before is in."""
        self.settle()
        place = chunk_name(self.written.partition, self.written.chunks)
        self.written.chunks += 1
        if self._target.fence == "chunk" and self._is_later_run():
            self._compare(place, chunk)
            return
        self._way.wait_for_turn(chunk.rows)
        self._way.pipe.submit(*self._command(place, chunk))
        self._in_flight = chunk

    def settle(self) -> None:
        """Waits for the chunk in flight."""
        chunk, self._in_flight = self._in_flight, None
        if chunk is None:
            return
        if self._way.reply() == write.WRITTEN_OTHERWISE:
            raise self._other_rows()
        self.written.rows += chunk.rows

    def close(self) -> None:
        """Ends the connection."""
        self._way.close()

    def _is_later_run(self) -> bool:
        """Whether another run began this write; refuses to cut its rows otherwise than that one did."""
        if self._begun is None:
            way, run, size = self._way, self._run, self._target.chunk_size
            self._begun = blocking_fence.begin(
                way.connection, way.keys, run.write_id, run.id, size, self._target.options.fence_ttl_s
            )
            if self._begun.chunk_size != size:
                raise NotRepeatableError(
                    f"write {run.write_id} of queue {way.keys.queue!r} was begun with chunks of "
                    f"{self._begun.chunk_size} rows, and this run has chunks of {size}; nothing was added. Set "
                    f"chunkSize to {self._begun.chunk_size} (a low maxRowsPerSecond makes chunks smaller)"
                )
        return self._begun.run != self._run.id

    def _compare(self, place: str, chunk: Chunk) -> None:
        way, run = self._way, self._run
        before = blocking_fence.digest_of(way.connection, way.keys, run.write_id, place)
        if before is not None and before != chunk.digest:
            raise self._other_rows()
        if before is None:
            kept = way.pipe.for_later(*self._command(place, chunk))
            blocking_fence.put_aside(way.connection, way.keys, run.write_id, run.id, place, kept)
            self.written.aside[place] = chunk.rows
        self.written.rows += chunk.rows

    def _command(self, place: str, chunk: Chunk) -> tuple[Script, Command]:
        options = self._target.options
        fence = Fence(
            write_id=self._run.write_id,
            chunk=place if self._target.fence == "chunk" else "",
            by_id=self._target.fence == "id",
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
            return write.chunk_command(self._way.keys, fence, limits, chunk.plain)
        return write.mixed_chunk_command(self._way.keys, fence, limits, chunk.mixed)

    def _other_rows(self) -> NotRepeatableError:
        partitions = None if self._begun is None else self._begun.partitions
        was = "" if partitions is None else f" It was written in {partitions} partitions: is it still?"
        return NotRepeatableError(
            f"partition {self.written.partition}, chunk {self.written.chunks - 1} of write {self._run.write_id} is in "
            f"queue {self._way.keys.queue!r} with other rows: this plan gives other rows, in another order or in "
            f"another number of partitions, when run again.{was} Give the rows an id column, so that each is known by "
            "its id, or sort or cache them first"
        )
