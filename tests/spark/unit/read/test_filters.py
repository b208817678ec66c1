"""Filters that narrow what is read never leave out what they let through."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not

from chasqui_engine.spark.read.filters import Narrowed, narrow
from chasqui_engine.spark.read.matches import find_matches, keep_matching, take
from chasqui_engine.spark.read.splits import IdRange
from chasqui_engine.values.stream_ids import as_number

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
KINDS: dict[type[Any], Any] = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}
micros = st.integers(0, 10_000)


@given(st.lists(st.tuples(st.sampled_from(list(KINDS)), micros), max_size=3), st.integers(0, 10), st.integers(0, 3))
def test_an_entry_that_passes_its_filters_is_read(filters: list[Any], ms: int, sequence: int) -> None:
    bounds = [kind(("ready_at",), EPOCH + timedelta(microseconds=at)) for kind, at in filters]
    found = narrow("jobs", bounds).range_within("0-0", "99-9")
    passes = all(KINDS[kind](ms * 1000, at) for kind, at in filters)
    is_read = as_number(found.start) <= as_number(f"{ms}-{sequence}") <= as_number(found.end)
    assert is_read or not passes


def test_times_and_ids_narrow_a_range() -> None:
    day = datetime(2026, 11, 18, tzinfo=UTC)
    ms = int(day.timestamp()) * 1000
    found = narrow("dead", [GreaterThanOrEqual(("died_at",), day), LessThan(("died_at",), day + timedelta(seconds=1))])
    assert found == Narrowed(from_ms=ms, until_ms=ms + 1000)
    assert found.range_within("5-0", f"{ms + 500}-3") == IdRange(f"{ms}-0", f"{ms + 500}-3")
    assert narrow("events", [EqualTo(("entry_id",), "7-3")]).range_within("5-0", "9-0") == IdRange("7-3", "7-3")


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("ts",), datetime(2026, 1, 1, tzinfo=UTC)),  # the clock of who emitted it, not that of the stream
        GreaterThan(("ready_at",), datetime(2026, 1, 1)),  # noqa: DTZ001 - no zone
        Not(GreaterThan(("ready_at",), datetime(2026, 1, 1, tzinfo=UTC))),
        EqualTo(("entry_id",), "no id"),
        EqualTo(("name",), "send"),
    ],
)
def test_other_filters_are_left_to_spark(one: Filter) -> None:
    assert narrow("jobs", [one]) == Narrowed()


def test_filters_on_text_say_what_matches() -> None:
    filters: list[Filter] = [
        EqualTo(("name",), "send"),
        In(("event",), ("failed", "dlq")),
        In(("event",), ("dlq", "active")),
        EqualTo(("attempt",), 1),
        Not(EqualTo(("reason",), "x")),
        In(("job_id",), (None, "j")),
    ]
    assert find_matches("events", filters) == {"name": {"send"}, "event": {"dlq"}}


def test_rows_that_do_not_match_are_dropped_and_a_limit_reads_no_further() -> None:
    batches = [pa.record_batch({"name": ["a", None, "b"], "n": [1, 2, 3]}), pa.record_batch({"name": ["c"], "n": [4]})]
    kept = keep_matching(iter(batches), {"name": frozenset("ab")})
    assert [row["n"] for batch in kept for row in batch.to_pylist()] == [1, 3]
    left = iter(batches)
    assert [batch.num_rows for batch in take(left, 2)] == [2]
    assert next(left) is batches[1], "not asked for"
