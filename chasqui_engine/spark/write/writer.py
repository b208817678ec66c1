"""Writing a queue: `df.write.format("chasqui")` and `df.writeStream.format("chasqui")`.

The writer is built on the driver, pickled, and run in the tasks; only the message that `write` returns comes back.
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
from chasqui_engine.spark.shipped import Shipped
from chasqui_engine.spark.write.commit import abandon_run, finish_run
from chasqui_engine.spark.write.fence import WriteRun, stream_write_id
from chasqui_engine.spark.write.partition import Written, write_partition
from chasqui_engine.spark.write.target import NotRepeatableError, Target
from chasqui_engine.values.errors import ChasquiError, ConfigError

_STRAGGLERS_S = 3600
"""How long after its commit a write may still be repeated by a copy of a task."""

_log = logging.getLogger("chasqui.spark")


class ChasquiWriter(Shipped, DataSourceArrowWriter):
    """One write of a DataFrame. Its id is made here, once, so that all tasks and their copies share it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._run = WriteRun(target.options.write_id or uuid.uuid4().hex, uuid.uuid4().hex)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: writes the rows of one partition."""
        try:
            return write_partition(self._target, self._run, _partition_id(), iterator)
        except NotRepeatableError:
            raise
        except ChasquiError as err:
            err.args = (f"{err.args[0]}. {self._how_to_resume()}", *err.args[1:])
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have ended. The fence of a write without an id of the user's expires soon."""
        if self._target.fence == "chunk":
            finish_run(self._target, self._run, _select_written(messages))
        if self._target.fence != "none" and self._target.options.write_id is None:
            with self._target.location.connect() as connection:
                fence.shorten(connection, self._target.location.keys, self._run.write_id, _STRAGGLERS_S)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """A task failed for good. What others added stays: the same write continues from there."""
        _log.warning("queue %r: a write failed. %s", self._target.location.queue, self._how_to_resume())
        if self._target.fence == "chunk":
            abandon_run(self._target, self._run, len(messages))

    def _how_to_resume(self) -> str:
        if self._target.fence == "none":
            return "The rows that were added stay; another write adds them again"
        return f"The rows that were added stay; .option('writeId', '{self._run.write_id}') adds the rest"


class ChasquiStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """The writes of a query, each fenced by the query's id and the batch's number."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._id = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: writes the rows of one partition of a micro-batch."""
        run = WriteRun(stream_write_id(*_query_and_batch()), self._id)
        return write_partition(self._target, run, _partition_id(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """The batch is done. The batch before can never come again, so its fence is deleted."""
        tasks = _select_written(messages)
        for run in {task.run for task in tasks}:
            if self._target.fence == "chunk":
                finish_run(self._target, run, tasks)
            if self._target.fence != "none" and batchId > 0:
                query_id, _, _ = run.write_id.rpartition(":")
                with self._target.location.connect() as connection:
                    fence.drop(connection, self._target.location.keys, stream_write_id(query_id, batchId - 1))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The batch will come again, with the same fence."""
        tasks = _select_written(messages)
        for run in {task.run for task in tasks}:
            if self._target.fence == "chunk":
                abandon_run(self._target, run, len(messages))


def _select_written(messages: list[WriterCommitMessage | None]) -> list[Written]:
    return [message for message in messages if isinstance(message, Written)]


def _task_context() -> Any:
    context = TaskContext.get()
    if context is None:
        raise ConfigError("rows can be written in Spark's tasks only")
    return context


def _partition_id() -> int:
    number: int = _task_context().partitionId()
    return number


def _query_and_batch() -> tuple[str, str]:
    context = _task_context()
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    if not query_id or batch_id is None:
        raise ConfigError("this Spark does not give its tasks the ids of query and batch; PySpark 4.2 does")
    return query_id, batch_id
