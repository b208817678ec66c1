"""Rows into a queue: `df.write.format("chasqui")` and `df.writeStream.format("chasqui")`.

The writer is made on the driver, pickled, and run in the tasks; what it learns there does not come back, except in
the message that `write` returns.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from chasqui_engine._redis.blocking import fence
from chasqui_engine.errors import ChasquiError, ConfigError
from chasqui_engine.spark.write.commit import end_run, give_up_run
from chasqui_engine.spark.write.fence import WriteRun, stream_write_id
from chasqui_engine.spark.write.partition import Written, write_partition
from chasqui_engine.spark.write.target import NotRepeatableError, Target

_STRAGGLERS_S = 3600
"""How long a copy of a task may still come after its write was committed."""

_log = logging.getLogger("chasqui.spark")


class ChasquiWriter(DataSourceArrowWriter):
    """One write of a DataFrame. Its id is made here, once, so that all tasks and all their copies share it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._run = WriteRun(target.options.write_id or uuid.uuid4().hex, uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: writes the rows of one partition."""
        try:
            return write_partition(self._target, self._run, _partition(), iterator)
        except NotRepeatableError:
            raise
        except ChasquiError as err:
            err.args = (f"{err.args[0]}. {self._way_on()}", *err.args[1:])
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks are done. The fence of a write nobody can name goes after a while."""
        if self._target.fence == "chunk":
            end_run(self._target, self._run, _log_written(messages))
        if self._target.fence != "none" and self._target.options.write_id is None:
            with self._target.place.connect() as connection:
                fence.shorten(connection, self._target.place.keys, self._run.write_id, _STRAGGLERS_S)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good. What others wrote stays: the same write goes on from there."""
        _log.warning("a write to queue %r failed. %s", self._target.place.queue, self._way_on())
        if self._target.fence == "chunk":
            give_up_run(self._target, self._run, len(messages))

    def _way_on(self) -> str:
        if self._target.fence == "none":
            return "What was added stays, and is added again by another write"
        return f"What was added stays: .option('writeId', '{self._run.write_id}') adds what is missing"


class ChasquiStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a query, each fenced by the query's id and the batch's number."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: writes the rows of one partition of a micro-batch."""
        run = WriteRun(stream_write_id(*_query_and_batch()), self._id)
        return write_partition(self._target, run, _partition(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """The batch is done. The batch before can never come again, so its fence goes."""
        tasks = _log_written(messages)
        for run in {task.run for task in tasks}:
            if self._target.fence == "chunk":
                end_run(self._target, run, tasks)
            if self._target.fence != "none" and batchId > 0:
                query_id, _, _ = run.write_id.rpartition(":")
                with self._target.place.connect() as connection:
                    fence.drop(connection, self._target.place.keys, stream_write_id(query_id, batchId - 1))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The batch will come again, with the same fence."""
        tasks = _log_written(messages)
        for run in {task.run for task in tasks}:
            if self._target.fence == "chunk":
                give_up_run(self._target, run, len(messages))


def _log_written(messages: list[WriterCommitMessage | None]) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]


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
