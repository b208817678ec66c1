"""Reading one part of an entity: what a Spark task does. Knows the server and Arrow, not Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from chasqui_engine._redis import bulk_reading
from chasqui_engine._redis.bulk_connection import BulkConnection, parse_page
from chasqui_engine._redis.keys import QueueKeys
from chasqui_engine.codec import decode_delayed
from chasqui_engine.errors import DecodeError
from chasqui_engine.spark import jobs
from chasqui_engine.spark.events import events_batch, events_batch_of_entries
from chasqui_engine.spark.pages import Page, take_apart
from chasqui_engine.spark.splits import SAMPLE, IdRange, split
from chasqui_engine.spark.stream_ids import after, as_number

_FEW_PAGES = 5
"""A range of fewer pages than this is not worth a task of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A queue, and how it is reached. Its text never shows the URL, which may hold a password."""

    url: str
    queue: str

    def __repr__(self) -> str:
        return f"Place(queue={self.queue!r})"

    def connect(self) -> BulkConnection:
        """A connection of the caller's own."""
        return BulkConnection(self.url, self.keys.stream, client_name=f"chasqui-spark:{self.queue}")

    @property
    def keys(self) -> QueueKeys:
        """The names of the queue's keys."""
        return QueueKeys(self.queue)

    def stream_key(self, entity: str) -> str:
        """The key of an entity that is a stream."""
        keys = self.keys
        return {"events": keys.events, "jobs": keys.stream, "dead": keys.dlq}[entity]


def plan_stream(
    connection: BulkConnection, key: str, first: str, last: str, length: int, *, wanted: int, page_size: int
) -> list[IdRange]:
    """Balanced ranges of a stream, both ends included."""
    wanted = min(wanted, max(1, length // (_FEW_PAGES * page_size)))

    def sample(starts: Sequence[str], end: str) -> list[list[str]]:
        return bulk_reading.sample_ids(connection, key, starts, end, SAMPLE)

    return connection.patiently(lambda: split(first, last, length, wanted, sample))


def plan_delayed(connection: BulkConnection, key: str, *, wanted: int, page_size: int) -> list[tuple[str, str]]:
    """Score ranges of the delayed set, as ZRANGEBYSCORE takes them."""
    length = bulk_reading.cardinality(connection, key)
    wanted = min(wanted, max(1, length // (_FEW_PAGES * page_size)))
    scores = bulk_reading.scores_at(connection, key, [length * n // wanted for n in range(1, wanted)])
    cuts = [repr(score) for score in sorted(set(scores))]
    return [
        (low, "+inf" if high is None else f"({high}") for low, high in zip(["-inf", *cuts], [*cuts, None], strict=True)
    ]


def read_stream(
    place: Place, entity: str, part: IdRange, schema: pa.Schema, page_size: int, check: Callable[[BulkConnection], None]
) -> Iterator[pa.RecordBatch]:
    """The entries of one range. The next page is asked for before this one is made into columns."""
    key = place.stream_key(entity)
    make = _events if entity == "events" else _jobs if entity == "jobs" else _dead
    with place.connect() as connection:
        check(connection)
        raw = connection.patiently(lambda: _page(connection, key, part.start, part.end, page_size))
        while True:
            page = take_apart(raw)
            entries = None if page is not None else parse_page(raw)
            count = page.count if page is not None else len(entries or ())
            if not count:
                return
            last = page.last_id() if page is not None else entries[-1][0].decode()  # type: ignore[index]
            start = after(last)
            more = count == page_size and as_number(start) <= as_number(part.end)
            if more:
                _ask(connection, key, start, part.end, page_size)
            yield make(raw, page, entries, place.queue, schema)
            if not more:
                return
            raw = _receive_or_ask_again(connection, key, start, part.end, page_size)


def walk(
    connection: BulkConnection, key: str, start: str, end: str, most: int, page_size: int
) -> tuple[str | None, int]:
    """The id of the `most`-th entry from `start` on, or of the last up to `end`; and how many entries that is."""
    last: str | None = None
    rows = 0
    while rows < most and as_number(start) <= as_number(end):
        count = min(page_size, most - rows)
        raw = connection.patiently(partial(_page, connection, key, start, end, count))
        page = take_apart(raw)
        ids = None if page is not None else [entry[0].decode() for entry in parse_page(raw)]
        found = page.count if page is not None else len(ids or ())
        if found:
            last = page.last_id() if page is not None else (ids or [""])[-1]
            rows += found
            start = after(last)
        if found < count:
            break
    return last, rows


def _page(connection: BulkConnection, key: str, start: str, end: str, count: int) -> bytearray:
    bulk_reading.ask_for_entries(connection, key, start, end, count)
    return connection.receive_page()


def _ask(connection: BulkConnection, key: str, start: str, end: str, count: int) -> None:
    connection.patiently(lambda: bulk_reading.ask_for_entries(connection, key, start, end, count))


def _receive_or_ask_again(connection: BulkConnection, key: str, start: str, end: str, count: int) -> bytearray:
    asked = True

    def receive() -> bytearray:
        nonlocal asked
        if asked:
            asked = False  # a second try has a new connection, on which nothing was asked
            return connection.receive_page()
        return _page(connection, key, start, end, count)

    return connection.patiently(receive)


def _events(
    raw: bytearray, page: Page | None, entries: list[Any] | None, queue: str, schema: pa.Schema
) -> pa.RecordBatch:
    if page is not None:
        return events_batch(page, queue, schema)
    return events_batch_of_entries(entries or [], queue, schema)


def _jobs(
    raw: bytearray, page: Page | None, entries: list[Any] | None, queue: str, schema: pa.Schema
) -> pa.RecordBatch:
    return jobs.batch_of([jobs.job_row(entry) for entry in entries or parse_page(raw)], queue, schema)


def _dead(
    raw: bytearray, page: Page | None, entries: list[Any] | None, queue: str, schema: pa.Schema
) -> pa.RecordBatch:
    return jobs.batch_of([jobs.dead_row(entry) for entry in entries or parse_page(raw)], queue, schema)


def read_delayed(place: Place, low: str, high: str, schema: pa.Schema, page_size: int) -> Iterator[pa.RecordBatch]:
    """The delayed jobs of one range of times."""
    with place.connect() as connection:
        for page in bulk_reading.scored_pages(connection, place.keys.delayed, low, high, page_size):
            yield jobs.batch_of([_delayed(member, score) for member, score in page], place.queue, schema)


def _delayed(member: bytes, score: float) -> jobs.Row:
    try:
        name, envelope = decode_delayed(member)
    except DecodeError:
        name, envelope = "", member
    return jobs.delayed_row(score, name, envelope)


def read_repeatables(place: Place, schema: pa.Schema, page_size: int) -> Iterator[pa.RecordBatch]:
    """All repeatable specs."""
    keys = place.keys
    with place.connect() as connection:
        for page in bulk_reading.scored_pages(connection, keys.repeat, "-inf", "+inf", page_size):
            found = bulk_reading.specs(connection, keys, [member for member, _ in page])
            rows = [
                jobs.spec_row(member.decode(errors="replace"), score, data, fired)
                for (member, score), (data, fired) in zip(page, found, strict=True)
            ]
            yield jobs.batch_of(rows, place.queue, schema)


def read_results(place: Place, schema: pa.Schema, page_size: int) -> Iterator[pa.RecordBatch]:
    """All kept results, and what dead jobs left in their place."""
    keys = place.keys
    with place.connect() as connection:
        now_ms = bulk_reading.server_now_ms(connection)
        for prefix, make in ((keys.result(""), jobs.result_row), (keys.failure(""), jobs.failure_row)):
            seen: set[str] = set()  # a scan may tell a key twice
            for page in bulk_reading.kept_pages(connection, prefix, page_size):
                rows = [
                    make(job_id, value, None if left_ms < 0 else now_ms + left_ms)
                    for job_id, value, left_ms in page
                    if job_id not in seen
                ]
                seen.update(job_id for job_id, _, _ in page)
                if rows:
                    yield jobs.batch_of(rows, place.queue, schema)
