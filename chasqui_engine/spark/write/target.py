"""The target of a write: a queue, its fence, and the connection on which chunks are sent."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pyspark.sql.types import StructType

from chasqui_engine._redis.blocking import write
from chasqui_engine._redis.blocking.connection import BulkConnection
from chasqui_engine._redis.blocking.write import ChunkPipe
from chasqui_engine.runtime.clock import monotonic
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import WriteOptions
from chasqui_engine.spark.write.fence import check_write_id
from chasqui_engine.spark.write.schema import check_payload, check_schema
from chasqui_engine.values.errors import ChasquiError, ConfigError, QueueFullError

_PACE_S = 0.25
"""At a limited rate, a chunk has at most the rows of this time."""


class NotRepeatableError(ChasquiError):
    """A repeated task or write had other rows or partitions than the first time."""

    code = "CMQ-316"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A queue, and how new rows are fenced: by "chunk", by "id", or not ("none")."""

    location: QueueLocation
    options: WriteOptions
    fence: str

    @staticmethod
    def from_schema(location: QueueLocation, options: WriteOptions, schema: StructType) -> Target:
        """Checks the schema, before anything is written."""
        check_schema({field.name: field.dataType.simpleString() for field in schema.fields}, options)
        check_payload(schema["payload"].dataType.jsonValue())
        has_id = "id" in schema.fieldNames()
        fence = options.fence or ("id" if has_id else "chunk")
        if fence == "id" and not has_id:
            raise ConfigError("fence=id needs a column id")
        if options.write_id is not None:
            check_write_id(options.write_id)
        return Target(location=location, options=options, fence=fence)

    @property
    def chunk_size(self) -> int:
        """Rows of a chunk."""
        size, rate = self.options.chunk_size, self.options.max_rows_per_s
        return size if rate is None else max(1, min(size, int(rate * _PACE_S)))


class ChunkSender:
    """Sends chunks to the queue one after the other, within the rate and the length allowed."""

    def __init__(self, target: Target, write_id: str) -> None:
        self._target = target
        self._write_id = write_id
        self.keys = target.location.keys
        self.connection: BulkConnection = target.location.connect()
        self.pipe = ChunkPipe(self.connection)

    def wait_for_turn(self, rows: int) -> None:
        """Waits until the rate allows so many rows."""
        rate = self._target.options.max_rows_per_s
        if rate is not None:
            connection = self.connection
            time.sleep(connection.patiently(lambda: write.book(connection, self.keys, self._write_id, rows, rate)))

    def reply(self) -> int:
        """The reply to the chunk that was submitted; waits while the queue is full, with whenFull=wait."""
        options = self._target.options
        safe_to_resend = self._target.fence != "none"
        reply = self.pipe.settle(safe_to_resend=safe_to_resend)
        give_up_at = monotonic() + options.full_timeout_s
        while reply == write.FULL:
            if options.when_full != "wait" or monotonic() > give_up_at:
                raise QueueFullError(
                    f"queue {self.keys.queue!r} has no room within maxStreamLen={options.max_stream_len}. Let workers "
                    "catch up, raise maxStreamLen, or set whenFull to wait (or trim, which drops the oldest)"
                )
            time.sleep(_PACE_S)
            self.pipe.resubmit()
            reply = self.pipe.settle(safe_to_resend=safe_to_resend)
        return reply

    def close(self) -> None:
        """Ends the connection."""
        self.connection.close()
