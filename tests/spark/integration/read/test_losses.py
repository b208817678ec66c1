"""Entries that go before a stream has read them, on each kind of server. What Spark would call is called by hand."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
import redis
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from chasqui_engine.codec.envelope import encode_envelope
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.options import read_options
from chasqui_engine.spark.read.stream_reader import ChasquiStreamReader, DataLossError
from chasqui_engine.spark.schemas import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = {"events": "events", "jobs": "stream", "dead": "dlq"}


class Followed:
    """A stream of a queue, and a query that has read some of it."""

    def __init__(self, url: str, queue: str, client: redis.Redis, entity: str) -> None:
        self._url, self._queue, self.entity = url, queue, entity
        self._client = client
        self.key = f"{{chasqui:{queue}}}:{KEYS[entity]}"
        self.at: dict[str, Any] = {}

    def reader(self, **options: str) -> ChasquiStreamReader:
        given = read_options({"queue": self._queue, "entity": self.entity, "pageSize": "10", **options})
        return ChasquiStreamReader(QueueLocation(url=self._url, queue=self._queue), given, arrow_schema(self.entity))

    def add(self, count: int) -> list[bytes]:
        fields = {"d": encode_envelope("j", b"\xc0", 1), "e": "active"}
        return [self._client.xadd(self.key, fields) for _ in range(count)]  # type: ignore[misc]

    def start(self) -> None:
        self.at = self.reader().initialOffset()
        self.rows()

    def batches(self, *, limit: int | None = None, **options: str) -> Iterator[int]:
        """The rows of each page of the next micro-batch, as they are read."""
        reader = self.reader(**options)
        end = reader.latestOffset(self.at, ReadAllAvailable() if limit is None else ReadMaxRows(limit))
        parts = reader.partitions(self.at, end)
        reader.stop()
        for part in parts:
            yield from (batch.num_rows for batch in reader.read(part))
        self.at = end

    def rows(self, **options: str) -> int:
        return sum(self.batches(**options))

    def trim(self, keep: int) -> None:
        self._client.xtrim(self.key, maxlen=keep, approximate=False)


@pytest.fixture
def followed(redis_url: str, queue_name: str, request: pytest.FixtureRequest) -> Iterator[Followed]:
    with redis.Redis.from_url(redis_url) as client:
        yield Followed(redis_url, queue_name, client, request.param)
        client.delete(*(f"{{chasqui:{queue_name}}}:{key}" for key in KEYS.values()))


every = pytest.mark.parametrize("followed", KEYS, indirect=True)
events = pytest.mark.parametrize("followed", ["events"], indirect=True)
deleted_by_name = pytest.mark.parametrize("followed", ["jobs", "dead"], indirect=True)


@pytest.fixture
def counts(redis_url: str) -> bool:
    """Whether the server counts what was ever added to a stream."""
    with redis.Redis.from_url(redis_url) as client:
        return int(client.info("server")["redis_version"].partition(".")[0]) >= 7


@every
def test_a_trim_before_a_batch_is_told_with_its_number(followed: Followed, counts: bool) -> None:
    followed.add(10)
    followed.start()
    followed.add(20)
    followed.trim(5)
    if not counts:
        assert followed.rows() == 5
        return
    with pytest.raises(DataLossError, match="15 entries"):
        followed.rows()
    assert followed.rows(failOnDataLoss="false") == 5
    followed.add(3)
    assert followed.rows() == 3


@every
def test_a_trim_before_the_first_page_of_a_batch_is_told(followed: Followed, counts: bool) -> None:
    followed.add(100)
    followed.at = followed.reader().initialOffset()
    reader = followed.reader(minPartitions="1")
    (part,) = reader.partitions(followed.at, reader.latestOffset(followed.at, ReadAllAvailable()))
    followed.trim(30)
    if not counts and followed.key.endswith(("stream", "dlq")):
        assert sum(batch.num_rows for batch in reader.read(part)) == 30
        return
    with pytest.raises(DataLossError, match="70 entries" if counts else "at least 1 entries"):
        list(reader.read(part))
    lenient = followed.reader(failOnDataLoss="false")
    assert sum(batch.num_rows for batch in lenient.read(part)) == 30


@events
def test_a_trim_between_two_pages_is_told(followed: Followed, counts: bool) -> None:
    followed.add(100)
    followed.at = followed.reader().initialOffset()
    pages = followed.batches()
    # The second page is on its way when the first one is given.
    assert next(pages) == 10
    followed.trim(40)
    assert next(pages) == 10
    with pytest.raises(DataLossError, match="40 entries" if counts else "at least 1 entries"):
        next(pages)


@events
def test_a_trim_past_a_later_part_of_a_batch_is_told(followed: Followed, counts: bool) -> None:
    followed.add(100)
    followed.at = followed.reader().initialOffset()
    reader = followed.reader(minPartitions="4")
    parts = reader.partitions(followed.at, reader.latestOffset(followed.at, ReadAllAvailable()))
    assert len(parts) == 4
    assert sum(batch.num_rows for part in parts for batch in reader.read(part)) == 100
    followed.trim(2)
    bound = " and at most 98" if counts else ""
    with pytest.raises(DataLossError, match=f"at least 1{bound} entries"):
        list(reader.read(parts[2]))


@every
def test_a_trim_of_what_was_read_is_no_loss(followed: Followed) -> None:
    followed.add(50)
    followed.start()
    followed.add(40)
    followed.trim(40)
    pages = followed.batches()
    assert next(pages) == 10
    assert next(pages) == 10
    followed.trim(20)
    assert sum(pages) == 20


@every
def test_a_stream_that_was_created_again_is_reported(followed: Followed, counts: bool, redis_url: str) -> None:
    followed.add(100)
    followed.start()
    with redis.Redis.from_url(redis_url) as client:
        client.delete(followed.key)
    followed.add(20)
    if counts:
        with pytest.raises(DataLossError, match="were deleted and created again"):
            followed.rows()
    assert followed.rows(failOnDataLoss="false") == 20
    followed.add(7)
    assert followed.rows() == 7


@deleted_by_name
def test_entries_deleted_by_name_are_no_loss_and_a_trim_among_them_is_told_as_far_as_it_is_known(
    followed: Followed, counts: bool, redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "chasqui")
    followed.add(10)
    followed.start()
    added = followed.add(20)
    with redis.Redis.from_url(redis_url) as client:
        client.xdel(followed.key, added[2])
        assert followed.rows() == 19
        assert "went before" not in caplog.text, "an entry that was read is still there, so no trim came this far"
        added = followed.add(20)
        client.xdel(followed.key, added[2])
    followed.trim(5)
    assert followed.rows() == 5
    assert (f"up to 15 entries of the {followed.entity}" in caplog.text) == counts


@deleted_by_name
def test_what_is_worked_off_while_it_is_read_is_no_loss(followed: Followed, redis_url: str) -> None:
    added = followed.add(60)
    followed.at = followed.reader().initialOffset()
    pages = followed.batches()
    assert next(pages) == 10
    with redis.Redis.from_url(redis_url) as client:
        client.xdel(followed.key, *added[:35])
    assert sum(pages) == 10 + 25


@every
def test_limited_batches_keep_the_count(followed: Followed, counts: bool) -> None:
    followed.add(30)
    followed.at = followed.reader().initialOffset()
    assert sum(followed.batches(limit=12)) == 12
    assert followed.at.get("added") == (12 if counts else None)
    followed.trim(10)
    if counts:
        with pytest.raises(DataLossError, match="8 entries"):
            sum(followed.batches(limit=12))


@events
def test_a_batch_falls_into_the_same_parts_whatever_is_asked_for_later(followed: Followed) -> None:
    followed.add(100)
    followed.at = followed.reader().initialOffset()
    end = followed.reader(minPartitions="3").latestOffset(followed.at, ReadAllAvailable())
    planned = followed.reader(minPartitions="3").partitions(followed.at, end)
    assert len(planned) == 3
    followed.add(100)
    for other in ("1", "2", "9"):
        assert followed.reader(minPartitions=other).partitions(followed.at, end) == planned
