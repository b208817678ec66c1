"""What people write by hand: a data source that gives tuples, and `foreachPartition` with a client's pipeline."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgpack
import redis
from pyspark.sql import DataFrame, Row
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

_PAGE = 2000


class TupleSource(DataSource):
    """The events stream, page by page, with the redis client; each entry a tuple."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return (
            "queue string, entry_id string, ts timestamp, event string, job_id string, name string, attempt int, "
            "duration_us bigint, reason string, backoff_ms bigint, delay_ms bigint"
        )

    def reader(self, schema: Any) -> DataSourceReader:
        return TupleReader(self.options["url"], self.options["key"])


class TupleReader(DataSourceReader):
    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key

    def partitions(self) -> Sequence[InputPartition]:
        with redis.Redis.from_url(self.url) as client:
            first = int(client.xrange(self.key, count=1)[0][0].split(b"-")[0])
            last = int(client.xrevrange(self.key, count=1)[0][0].split(b"-")[0])
        middle = (first + last) // 2
        return [InputPartition((f"{first}-0", f"{middle}-0")), InputPartition((f"({middle}-0", f"{last + 1}-0"))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        start, end = partition.value
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            while True:
                page = client.xrange(self.key, start, end, count=_PAGE)
                for entry_id, fields in page:
                    yield _tuple(entry_id, fields)
                if len(page) < _PAGE:
                    return
                start = f"({page[-1][0]}"


def _tuple(entry_id: str, fields: dict[str, str]) -> tuple[Any, ...]:
    def number(name: str) -> int | None:
        return int(fields[name]) if name in fields else None

    return (
        "read",
        entry_id,
        datetime.fromtimestamp(int(fields["ts"]) / 1000, UTC),
        fields["e"],
        fields["id"],
        fields.get("n"),
        number("attempt"),
        number("duration_us"),
        fields.get("reason"),
        number("backoff_ms"),
        number("delay_ms"),
    )


def write_by_hand(frame: DataFrame, url: str, queue: str) -> None:
    """Each partition with a client and pipelines of a thousand."""

    def work(rows: Iterator[Row]) -> None:
        # Imported in the task: the mint holds a lock, which does not travel.
        from chasqui_engine.values.ids import mint_id

        key = f"{{chasqui:{queue}}}:stream"
        with redis.Redis.from_url(url) as client:
            pipe = client.pipeline(transaction=False)
            for number, row in enumerate(rows, 1):
                payload = msgpack.packb(json.loads(row.payload))
                envelope = msgpack.packb([mint_id(), payload, time.time_ns() // 1_000_000, 0])
                pipe.xadd(key, {"d": envelope, "n": row.name})
                if number % 1000 == 0:
                    pipe.execute()
            pipe.execute()

    frame.foreachPartition(work)
