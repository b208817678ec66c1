"""Reading one part of an entity: what a Spark task does. Knows the server and Arrow, not Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from chasqui_engine._redis.blocking import read
from chasqui_engine._redis.blocking.connection import BulkConnection, parse_page
from chasqui_engine.codec import decode_delayed
from chasqui_engine.errors import DecodeError
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.read import rows as rows_module
from chasqui_engine.spark.read.events import events_batch, events_batch_of_entries
from chasqui_engine.spark.read.resp_page import Page, take_apart
from chasqui_engine.spark.read.splits import SAMPLE, IdRange, split
from chasqui_engine.stream_ids import after, as_number

_FEW_PAGES = 5
"""A range of fewer pages than this is not worth a task of its own."""


def partitions_wanted(given: int | None, length: int, page_size: int) -> int:
    """How many tasks read so many entries: as many as the user says, else one per core where there is enough to do."""
    if given is not None:
        return max(1, min(given, length))
    return min(max(2, os.cpu_count() or 2), max(1, length // (_FEW_PAGES * page_size)))


def plan_stream(
    connection: BulkConnection, key: str, first: str, last: str, length: int, *, wanted: int | None, page_size: int
) -> list[IdRange]:
    """Balanced ranges of a stream, both ends included."""
    number = partitions_wanted(wanted, length, page_size)

    def sample(starts: Sequence[str], end: str) -> list[list[str]]:
        return read.sample_ids(connection, key, starts, end, SAMPLE)

    return connection.patiently(lambda: split(first, last, length, number, sample))


def plan_delayed(connection: BulkConnection, key: str, *, wanted: int | None, page_size: int) -> list[tuple[str, str]]:
    """Score ranges of the delayed set, as ZRANGEBYSCORE takes them."""
    length = read.cardinality(connection, key)
    number = partitions_wanted(wanted, length, page_size)
    scores = read.scores_at(connection, key, [length * n // number for n in range(1, number)])
    cuts = [repr(score) for score in sorted(set(scores))]
    return [
        (low, "+inf" if high is None else f"({high}") for low, high in zip(["-inf", *cuts], [*cuts, None], strict=True)
    ]


def read_stream(
    place: QueueLocation,
    entity: str,
    part: IdRange,
    schema: pa.Schema,
    page_size: int,
    watch: LossDetector | None = None,
) -> Iterator[pa.RecordBatch]:
    """The entries of one range. The next page is asked for before this one is made into columns."""
    key = place.stream_key(entity)
    make = _events if entity == "events" else _jobs if entity == "jobs" else _dead
    start, asked, rows = part.start, page_size, 0
    expected = None if watch is None else watch.first
    with place.connect() as connection:
        raw = connection.patiently(lambda: _page(connection, key, part.start, part.end, page_size))
        while True:
            got = _Entries(raw)
            is_there = got.count > 0 and got.first_id() == expected
            if watch is not None and expected is not None and not is_there:
                watch.gone(connection, expected, rows)
            known = 1 if is_there and rows else 0
            if got.count == known:
                return
            last = got.last_id()
            more = got.count == asked and as_number(last) < as_number(part.end)
            if more:
                # Who watches asks for the last entry again: as long as it is there, none after it was trimmed away.
                start, asked = (after(last), page_size) if watch is None else (last, page_size + 1)
                _ask(connection, key, start, part.end, asked)
            batch = make(got, place.queue, schema)
            yield batch.slice(known) if known else batch
            if not more:
                return
            rows += got.count - known
            expected = None if watch is None else last
            raw = _receive_or_ask_again(connection, key, start, part.end, asked)


@dataclass(frozen=True, slots=True)
class LossDetector:
    """Looks out for entries that go before they are read."""

    first: str | None
    """An entry with which the range began when it was planned."""
    gone: Callable[[BulkConnection, str, int], None]
    """Called with the entry that is not there any more, and how many rows of the range were read before."""


class _Entries:
    """A page: taken apart, or parsed where that cannot be."""

    def __init__(self, raw: bytearray) -> None:
        self.page: Page | None = take_apart(raw)
        self._raw = raw
        self._parsed: list[Any] | None = None

    @property
    def count(self) -> int:
        return self.page.count if self.page is not None else len(self.parsed())

    def parsed(self) -> list[Any]:
        if self._parsed is None:
            self._parsed = parse_page(self._raw)
        return self._parsed

    def first_id(self) -> str:
        return self.page.first_id() if self.page is not None else self.parsed()[0][0].decode()

    def last_id(self) -> str:
        return self.page.last_id() if self.page is not None else self.parsed()[-1][0].decode()


def walk(
    connection: BulkConnection, key: str, start: str, end: str, most: int, page_size: int
) -> tuple[str | None, int]:
    """The id of the `most`-th entry from `start` on, or of the last up to `end`; and how many entries that is."""
    last: str | None = None
    rows = 0
    while rows < most and as_number(start) <= as_number(end):
        count = min(page_size, most - rows)
        got = _Entries(connection.patiently(partial(_page, connection, key, start, end, count)))
        if got.count:
            last = got.last_id()
            rows += got.count
            start = after(last)
        if got.count < count:
            break
    return last, rows


def _page(connection: BulkConnection, key: str, start: str, end: str, count: int) -> bytearray:
    read.ask_for_entries(connection, key, start, end, count)
    return connection.receive_page()


def _ask(connection: BulkConnection, key: str, start: str, end: str, count: int) -> None:
    connection.patiently(lambda: read.ask_for_entries(connection, key, start, end, count))


def _receive_or_ask_again(connection: BulkConnection, key: str, start: str, end: str, count: int) -> bytearray:
    asked = True

    def receive() -> bytearray:
        nonlocal asked
        if asked:
            asked = False  # a second try has a new connection, on which nothing was asked
            return connection.receive_page()
        return _page(connection, key, start, end, count)

    return connection.patiently(receive)


def _events(got: _Entries, queue: str, schema: pa.Schema) -> pa.RecordBatch:
    if got.page is not None:
        return events_batch(got.page, queue, schema)
    return events_batch_of_entries(got.parsed(), queue, schema)


def _jobs(got: _Entries, queue: str, schema: pa.Schema) -> pa.RecordBatch:
    return rows_module.batch_of([rows_module.job_row(entry) for entry in got.parsed()], queue, schema)


def _dead(got: _Entries, queue: str, schema: pa.Schema) -> pa.RecordBatch:
    return rows_module.batch_of([rows_module.dead_row(entry) for entry in got.parsed()], queue, schema)


def read_delayed(
    place: QueueLocation, low: str, high: str, schema: pa.Schema, page_size: int
) -> Iterator[pa.RecordBatch]:
    """The delayed jobs of one range of times."""
    with place.connect() as connection:
        for page in read.scored_pages(connection, place.keys.delayed, low, high, page_size):
            yield rows_module.batch_of([_delayed(member, score) for member, score in page], place.queue, schema)


def _delayed(member: bytes, score: float) -> rows_module.Row:
    try:
        name, envelope = decode_delayed(member)
    except DecodeError:
        name, envelope = "", member
    return rows_module.delayed_row(score, name, envelope)


def read_repeatables(place: QueueLocation, schema: pa.Schema, page_size: int) -> Iterator[pa.RecordBatch]:
    """All repeatable specs."""
    keys = place.keys
    with place.connect() as connection:
        for page in read.scored_pages(connection, keys.repeat, "-inf", "+inf", page_size):
            found = read.specs(connection, keys, [member for member, _ in page])
            rows = [
                rows_module.spec_row(member.decode(errors="replace"), score, data, fired)
                for (member, score), (data, fired) in zip(page, found, strict=True)
            ]
            yield rows_module.batch_of(rows, place.queue, schema)


def read_results(place: QueueLocation, schema: pa.Schema, page_size: int) -> Iterator[pa.RecordBatch]:
    """All kept results, and what dead jobs left in their place."""
    keys = place.keys
    with place.connect() as connection:
        now_ms = read.server_now_ms(connection)
        for prefix, make in ((keys.result(""), rows_module.result_row), (keys.failure(""), rows_module.failure_row)):
            seen: set[str] = set()  # a scan may tell a key twice
            for page in read.kept_pages(connection, prefix, page_size):
                rows = [
                    make(job_id, value, None if left_ms < 0 else now_ms + left_ms)
                    for job_id, value, left_ms in page
                    if job_id not in seen
                ]
                seen.update(job_id for job_id, _, _ in page)
                if rows:
                    yield rows_module.batch_of(rows, place.queue, schema)
