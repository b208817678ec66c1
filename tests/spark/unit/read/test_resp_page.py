"""A page of XRANGE, taken apart with numpy, says what hiredis says, or says that it cannot tell."""

from __future__ import annotations

from typing import Any

import hiredis
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chasqui_engine.spark.read.events import events_batch, events_batch_of_entries
from chasqui_engine.spark.read.resp_page import arrow_binary, arrow_int, find_fields, take_apart
from chasqui_engine.spark.schemas import arrow_schema

Entry = tuple[bytes, list[tuple[bytes, bytes]]]
SCHEMA = arrow_schema("events")


def bulk(data: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(data), data)


def page_of(entries: list[Entry]) -> bytes:
    parts = [b"*%d\r\n" % len(entries)]
    for entry_id, fields in entries:
        parts += [b"*2\r\n", bulk(entry_id), b"*%d\r\n" % (2 * len(fields))]
        parts += [bulk(text) for pair in fields for text in pair]
    return b"".join(parts)


def parsed(raw: bytes) -> list[Any]:
    reader = hiredis.Reader()
    reader.feed(raw)
    entries: list[Any] = reader.gets()
    return entries


FIELDS = [
    b"e",
    b"id",
    b"ts",
    b"n",
    b"attempt",
    b"duration_us",
    b"reason",
    b"backoff_ms",
    b"delay_ms",
    b"x",
    b"duration_xs",
]
nasty = st.sampled_from(
    [b"", b"*2", b"$5", b"*", b"$", b"a\r\nb", b"\r\n", b"\n", b"\r", b"*2\r\n$1\r\n1", b"$3\r\nabc", b"\xff\xfe"]
)
value = st.one_of(
    nasty, st.binary(max_size=12), st.integers(0, 10**13).map(lambda n: b"%d" % n), st.text(max_size=6).map(str.encode)
)
entry = st.tuples(
    st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)).map(lambda pair: b"%d-%d" % pair),
    st.lists(st.tuples(st.sampled_from(FIELDS), value), max_size=6),
)


@given(st.lists(entry, max_size=8))
@settings(max_examples=300, deadline=None)
def test_what_is_taken_apart_is_what_a_parser_reads(entries: list[Entry]) -> None:
    raw = page_of(entries)
    page = take_apart(raw)
    if page is None:
        return
    assert page.count == len(entries)
    whole = [arrow_binary(page, *find_fields(page, [name.decode()])[name.decode()]).to_pylist() for name in FIELDS]
    for row, (_, fields) in enumerate(entries):
        assert {
            name: column[row] for name, column in zip(FIELDS, whole, strict=True) if column[row] is not None
        } == dict(fields)


@given(st.lists(entry, min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_both_ways_make_the_same_batch(entries: list[Entry]) -> None:
    raw = page_of(entries)
    slow = events_batch_of_entries(parsed(raw), "q", SCHEMA)
    page = take_apart(raw)
    if page is not None:
        assert events_batch(page, "q", SCHEMA).to_pylist() == slow.to_pylist()
        assert page.last_id().encode() == entries[-1][0]


plain = st.text(st.characters(codec="utf-8", exclude_characters="\r\n*$"), max_size=12).map(str.encode)


@given(
    st.lists(
        st.tuples(st.just(b"1700000000000-0"), st.lists(st.tuples(st.sampled_from(FIELDS), plain), max_size=5)),
        max_size=6,
    )
)
def test_plain_pages_are_always_taken_apart(entries: list[Entry]) -> None:
    assert take_apart(page_of(entries)) is not None


@pytest.mark.parametrize(
    "reason", [b"line one\r\nline two", b"*2", b"*4\r\n$1\r\ne\r\n$4\r\nfake\r\n", b"$5\r\nhello", b"\r\n", b"a\nb"]
)
def test_a_value_that_looks_like_the_protocol_is_left_to_the_parser(reason: bytes) -> None:
    assert take_apart(page_of([(b"1-0", [(b"e", b"failed"), (b"reason", reason)])])) is None


@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"+OK\r\n", b"*1\r\n", b"*1\r\n*2\r\n$3\r\n1-0\r\n", b"*x\r\n", b"*0\r", b"*-1\r\n"]
)
def test_what_is_no_page_is_not_taken_apart(raw: bytes) -> None:
    assert take_apart(raw) is None


def test_an_empty_page_has_no_entries() -> None:
    page = take_apart(b"*0\r\n")
    assert page is not None
    assert page.count == 0


def test_columns_have_their_types_and_nulls() -> None:
    raw = page_of(
        [
            (b"1-0", [(b"e", b"active"), (b"id", b"j"), (b"ts", b"1700000000123"), (b"attempt", b"1")]),
            (
                b"2-0",
                [(b"e", b"failed"), (b"id", b""), (b"ts", b"soon"), (b"attempt", b"99999999999"), (b"reason", b"\xff")],
            ),
        ]
    )
    page = take_apart(raw)
    assert page is not None
    batch = events_batch(page, "q", SCHEMA)
    assert batch.schema == SCHEMA
    rows = batch.to_pylist()
    assert rows[0]["ts"].timestamp() == pytest.approx(1700000000.123)
    assert rows[0]["attempt"] == 1
    assert rows[0]["reason"] is None
    assert rows[0]["name"] is None
    assert rows[1]["ts"] is None
    assert rows[1]["attempt"] == 99_999_999_999, "the wire has 32 bits without a sign, and others may write more"
    assert rows[1]["job_id"] == ""
    assert rows[1]["reason"] == "�"


def test_a_time_that_no_calendar_has_is_null() -> None:
    times = (b"0", b"253402300799999", b"253402300800000", b"9223372036854775807", b"-9223372036854775808", b"-1")
    entries = [(b"%d-0" % n, [(b"ts", ts)]) for n, ts in enumerate(times, 1)]
    page = take_apart(page_of(entries))
    assert page is not None
    assert [row["ts"] is None for row in events_batch(page, "q", SCHEMA).to_pylist()] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]


def test_only_the_wanted_columns_are_made() -> None:
    page = take_apart(page_of([(b"1-0", [(b"e", b"active"), (b"id", b"j")])]))
    assert page is not None
    batch = events_batch(page, "q", arrow_schema("events", ["job_id", "event"]))
    assert batch.to_pylist() == [{"job_id": "j", "event": "active"}]
    assert batch.schema.types == [pa.string(), pa.string()]


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
@pytest.mark.parametrize("text", ["7", "-7", "007", "0x10", "+7", " 7", "", "٣", "1e3", "9" * 19, "9" * 5000])
def test_a_number_is_one_whatever_stands_beside_it(text: str, kind: pa.DataType) -> None:
    alone = arrow_int(pa.array([text, None]), kind).to_pylist()
    assert arrow_int(pa.array([text, None, "none"]), kind).to_pylist() == [*alone, None]
