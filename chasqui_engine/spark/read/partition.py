"""Plans the parts of an entity, and reads one. Knows the server and Arrow, not Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from chasqui_engine._redis.blocking import read, redrive
from chasqui_engine._redis.blocking.connection import BulkConnection, parse_page
from chasqui_engine._redis.blocking.redrive import RedriveMark
from chasqui_engine.codec.envelope import decode_delayed
from chasqui_engine.spark.location import QueueLocation
from chasqui_engine.spark.read.events import events_batch, events_batch_of_entries
from chasqui_engine.spark.read.filters import Narrowed
from chasqui_engine.spark.read.matches import Matches
from chasqui_engine.spark.read.resp_page import Page, take_apart
from chasqui_engine.spark.read.rows import (
    Columns,
    Row,
    batch_of,
    dead_row,
    delayed_row,
    failure_row,
    job_row,
    redriven_columns,
    result_row,
    spec_row,
)
from chasqui_engine.spark.read.splits import SAMPLE, IdRange, split
from chasqui_engine.spark.schemas import STREAMED
from chasqui_engine.values.errors import DecodeError
from chasqui_engine.values.stream_ids import after, as_number

Marks = Mapping[str, RedriveMark | None]
"""Dead letters that were redriven, by their ids."""

_FEW_PAGES = 5
"""A range of fewer pages than this is not worth a task of its own."""


def partitions_wanted(given: int | None, length: int, page_size: int) -> int:
    """The number of tasks for so many entries: as given, else one per core where there is enough to read."""
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


def plan_delayed(
    connection: BulkConnection, key: str, within: Narrowed, *, wanted: int | None, page_size: int
) -> list[tuple[str, str]]:
    """Score ranges of the delayed set, as ZRANGEBYSCORE takes them."""
    first, last = within.scores()
    length = read.count_members(connection, key)
    number = partitions_wanted(wanted, length, page_size)
    scores = read.read_scores_at(connection, key, [length * n // number for n in range(1, number)])
    cuts = [repr(score) for score in sorted(set(scores)) if within.has_score(score)]
    return list(zip([first, *cuts], [*(f"({cut}" for cut in cuts), last], strict=True))


def read_stream(
    location: QueueLocation,
    entity: str,
    part: IdRange,
    schema: pa.Schema,
    page_size: int,
    losses: LossDetector | None = None,
    most: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The entries of one range, at `most` so many. The next page is asked for before this one is made into columns."""
    key = location.stream_key(entity)
    make = _make_events if entity == "events" else _make_jobs if entity == "jobs" else _make_dead
    wants_marks = entity == "dead" and any(name.startswith("redriven_") for name in schema.names)
    start, rows = part.start, 0
    asked = page_size if most is None else min(page_size, most)
    expected = None if losses is None else losses.first
    with location.connect() as connection:
        raw = connection.patiently(lambda: _page(connection, key, part.start, part.end, asked))
        while True:
            page = _Entries(raw)
            is_there = page.count > 0 and page.first_id() == expected
            if losses is not None and expected is not None and not is_there:
                losses.on_gone(connection, expected, rows)
            known = 1 if is_there and rows else 0
            if page.count == known:
                return
            last = page.last_id()
            more = (
                page.count == asked and as_number(last) < as_number(part.end) and (most is None or rows + asked < most)
            )
            # Before the next page is requested, whose reply would come in between.
            marks = _read_marks(connection, location, page) if wants_marks else {}
            if more:
                # To detect losses, the last entry is read again: while it is there, none after it was trimmed.
                left = page_size if most is None else min(page_size, most - rows - page.count + known)
                start, asked = (after(last), left) if losses is None else (last, left + 1)
                _request_page(connection, key, start, part.end, asked)
            batch = make(page, location.queue, schema, marks)
            yield batch.slice(known) if known else batch
            if not more:
                return
            rows += page.count - known
            expected = None if losses is None else last
            raw = _receive_page(connection, key, start, part.end, asked)


@dataclass(frozen=True, slots=True)
class LossDetector:
    """Detects entries that were trimmed before they were read."""

    first: str | None
    """The entry with which the range began when it was planned."""
    on_gone: Callable[[BulkConnection, str, int], None]
    """Called with the entry that is gone, and the number of rows of the range that were read before."""


class _Entries:
    """A page: parsed by numpy, or by hiredis where it is not plain."""

    def __init__(self, raw: bytearray) -> None:
        self.plain: Page | None = take_apart(raw)
        self._raw = raw
        self._parsed: list[Any] | None = None

    @property
    def count(self) -> int:
        return self.plain.count if self.plain is not None else len(self.parse())

    def parse(self) -> list[Any]:
        if self._parsed is None:
            self._parsed = parse_page(self._raw)
        return self._parsed

    def first_id(self) -> str:
        return self.plain.first_id() if self.plain is not None else self.parse()[0][0].decode()

    def last_id(self) -> str:
        return self.plain.last_id() if self.plain is not None else self.parse()[-1][0].decode()


def walk(
    connection: BulkConnection, key: str, start: str, end: str, most: int, page_size: int
) -> tuple[str | None, int]:
    """The id of the `most`-th entry from `start` on, or of the last up to `end`; and how many entries that is."""
    last: str | None = None
    rows = 0
    while rows < most and as_number(start) <= as_number(end):
        count = min(page_size, most - rows)
        page = _Entries(connection.patiently(partial(_page, connection, key, start, end, count)))
        if page.count:
            last = page.last_id()
            rows += page.count
            start = after(last)
        if page.count < count:
            break
    return last, rows


def _page(connection: BulkConnection, key: str, start: str, end: str, count: int) -> bytearray:
    read.ask_for_entries(connection, key, start, end, count)
    return connection.receive_page()


def _request_page(connection: BulkConnection, key: str, start: str, end: str, count: int) -> None:
    connection.patiently(lambda: read.ask_for_entries(connection, key, start, end, count))


def _receive_page(connection: BulkConnection, key: str, start: str, end: str, count: int) -> bytearray:
    requested = True

    def receive() -> bytearray:
        nonlocal requested
        if requested:
            requested = False  # a second try has a new connection, on which nothing was requested
            return connection.receive_page()
        return _page(connection, key, start, end, count)

    return connection.patiently(receive)


def _make_events(page: _Entries, queue: str, schema: pa.Schema, _: Marks) -> pa.RecordBatch:
    if page.plain is not None:
        return events_batch(page.plain, queue, schema)
    return events_batch_of_entries(page.parse(), queue, schema)


def _make_jobs(page: _Entries, queue: str, schema: pa.Schema, _: Marks) -> pa.RecordBatch:
    columns = set(schema.names)
    return batch_of([job_row(entry, columns) for entry in page.parse()], queue, schema)


def _make_dead(page: _Entries, queue: str, schema: pa.Schema, marks: Marks) -> pa.RecordBatch:
    columns = set(schema.names)
    rows = [dead_row(entry, columns) for entry in page.parse()]
    if marks:
        rows = [row | redriven_columns(marks.get(row["entry_id"])) for row in rows]
    return batch_of(rows, queue, schema)


def _read_marks(connection: BulkConnection, location: QueueLocation, page: _Entries) -> Marks:
    entry_ids = [entry[0].decode() for entry in page.parse()]
    return connection.patiently(lambda: redrive.read_marks(connection, location.keys, entry_ids))


def read_delayed(
    location: QueueLocation, low: str, high: str, schema: pa.Schema, page_size: int
) -> Iterator[pa.RecordBatch]:
    """The delayed jobs of one range of times."""
    columns = set(schema.names)
    with location.connect() as connection:
        for page in read.read_scored_pages(connection, location.keys.delayed, low, high, page_size):
            rows = [_make_delayed_row(member, score, columns) for member, score in page]
            yield batch_of(rows, location.queue, schema)


def _make_delayed_row(member: bytes, score: float, columns: Columns) -> Row:
    try:
        name, envelope = decode_delayed(member)
    except DecodeError:
        name, envelope = "", member
    return delayed_row(score, name, envelope, columns)


def read_repeatables(location: QueueLocation, schema: pa.Schema, page_size: int) -> Iterator[pa.RecordBatch]:
    """All repeatable specs."""
    keys = location.keys
    with location.connect() as connection:
        for page in read.read_scored_pages(connection, keys.repeat, "-inf", "+inf", page_size):
            found = read.read_specs(connection, keys, [member for member, _ in page])
            rows = [
                spec_row(member.decode(errors="replace"), score, data, fired)
                for (member, score), (data, fired) in zip(page, found, strict=True)
            ]
            yield batch_of(rows, location.queue, schema)


def read_counts(location: QueueLocation, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The number of rows of each entity of which the server knows it without looking at them."""
    keys = location.keys
    streams = {entity: ("XLEN", location.stream_key(entity)) for entity in STREAMED}
    sets = {"delayed": ("ZCARD", keys.delayed), "repeatables": ("ZCARD", keys.repeat)}
    with location.connect() as connection:
        found = read.count_rows(connection, {**streams, **sets})
    yield batch_of([{"entity": entity, "rows": rows} for entity, rows in found.items()], location.queue, schema)


def read_results(
    location: QueueLocation, schema: pa.Schema, page_size: int, matches: Matches
) -> Iterator[pa.RecordBatch]:
    """Kept results, and what dead jobs leave in place of one; all, or only those of the jobs that are asked for."""
    keys = location.keys
    outcomes = {"completed": (keys.result(""), result_row), "dead": (keys.failure(""), failure_row)}
    wanted = matches.get("job_id")
    with location.connect() as connection:
        now_ms = read.server_now_ms(connection)
        for prefix, make in (outcomes[name] for name in outcomes if name in matches.get("outcome", outcomes)):
            seen: set[str] = set()  # a scan may return a key twice
            pages = (
                read.read_kept_pages(connection, prefix, page_size)
                if wanted is None
                else read.read_kept(connection, prefix, sorted(wanted))
            )
            for page in pages:
                rows = [
                    make(job_id, value, None if left_ms < 0 else now_ms + left_ms)
                    for job_id, value, left_ms in page
                    if job_id not in seen
                ]
                seen.update(job_id for job_id, _, _ in page)
                if rows:
                    yield batch_of(rows, location.queue, schema)
