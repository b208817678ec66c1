"""A task of a write: the rows of one partition, in chunks, each once.

A task of the run that began a write adds its chunks to the queue. A task of a later run of the same write (the user
named it, or a stream was restarted) skips the chunks that are there, and puts missing ones aside: whether they are
missing, or only cut otherwise because the rows are partitioned otherwise, is known when all tasks have ended. See
`commit.py`.
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
from chasqui_engine.spark.write.chunks import Chunk, cut_chunks
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
    """Chunks that were put aside, and the number of rows of each."""


def write_partition(target: Target, run: WriteRun, partition: int, batches: Iterator[pa.RecordBatch]) -> Written:
    """Writes batches in chunks, one in flight."""
    options = target.options
    task = _Task(target, run, partition)
    try:
        for chunk in cut_chunks(batches, target.chunk_size, options.payload_format, options.max_delay_s):
            task.write(chunk)
        task.settle()
    finally:
        task.close()
    return task.written


class _Task:
    """One partition and its sender."""

    def __init__(self, target: Target, run: WriteRun, partition: int) -> None:
        self._target = target
        self._run = run
        self._sender = ChunkSender(target, run.write_id)
        self._in_flight: Chunk | None = None
        self._begun: Begun | None = None
        self.written = Written(run, partition)

    def write(self, chunk: Chunk) -> None:
        """Sends a chunk, once the one before was added."""
        self.settle()
        name = chunk_name(self.written.partition, self.written.chunks)
        self.written.chunks += 1
        if self._target.fence == "chunk" and self._is_later_run():
            self._compare(name, chunk)
            return
        self._sender.wait_for_turn(chunk.rows)
        self._sender.pipe.submit(*self._command(name, chunk))
        self._in_flight = chunk

    def settle(self) -> None:
        """Waits for the chunk in flight."""
        chunk, self._in_flight = self._in_flight, None
        if chunk is None:
            return
        if self._sender.reply() == write.WRITTEN_OTHERWISE:
            raise self._other_rows()
        self.written.rows += chunk.rows

    def close(self) -> None:
        """Ends the connection."""
        self._sender.close()

    def _is_later_run(self) -> bool:
        """Whether another run began this write; raises if that one cut its rows otherwise."""
        if self._begun is None:
            sender, run, size = self._sender, self._run, self._target.chunk_size
            self._begun = blocking_fence.begin(
                sender.connection, sender.keys, run.write_id, run.id, size, self._target.options.fence_ttl_s
            )
            if self._begun.chunk_size != size:
                raise NotRepeatableError(
                    f"write {run.write_id} of queue {sender.keys.queue!r} was begun with chunks of "
                    f"{self._begun.chunk_size} rows, and this run has chunks of {size}; nothing was added. Set "
                    f"chunkSize to {self._begun.chunk_size} (a low maxRowsPerSecond makes chunks smaller)"
                )
        return self._begun.run != self._run.id

    def _compare(self, name: str, chunk: Chunk) -> None:
        sender, run = self._sender, self._run
        before = blocking_fence.digest_of(sender.connection, sender.keys, run.write_id, name)
        if before is not None and before != chunk.digest:
            raise self._other_rows()
        if before is None:
            kept = sender.pipe.for_later(*self._command(name, chunk))
            blocking_fence.put_aside(sender.connection, sender.keys, run.write_id, run.id, name, kept)
            self.written.aside[name] = chunk.rows
        self.written.rows += chunk.rows

    def _command(self, name: str, chunk: Chunk) -> tuple[Script, Command]:
        options = self._target.options
        fence = Fence(
            write_id=self._run.write_id,
            chunk=name if self._target.fence == "chunk" else "",
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
            return write.chunk_command(self._sender.keys, fence, limits, chunk.plain)
        return write.mixed_chunk_command(self._sender.keys, fence, limits, chunk.mixed)

    def _other_rows(self) -> NotRepeatableError:
        partitions = None if self._begun is None else self._begun.partitions
        was = "" if partitions is None else f" It was written in {partitions} partitions: is it still?"
        return NotRepeatableError(
            f"partition {self.written.partition}, chunk {self.written.chunks - 1} of write {self._run.write_id} was "
            f"added to queue {self._sender.keys.queue!r} with other rows: when run again, this plan gives other rows, "
            f"in another order or in another number of partitions.{was} Give the rows an id column, by which each is "
            "recognised, or sort or cache them first"
        )
