"""Filters of a query that narrow what is read from Redis: times and ids of entries. Pure.

They only make the range smaller. Spark evaluates every filter again, so a range may be wider than its filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual

from chasqui_engine.spark.read.splits import IdRange
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.stream_ids import as_number, as_text, at_ms

TIMES = {"jobs": "ready_at", "dead": "died_at", "delayed": "run_at"}
"""The column of an entity that is the time in its ids, or its score."""
_HIGHEST_SEQUENCE = 2**64 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The range left by the filters; None where they do not restrict it."""

    from_ms: int | None = None
    until_ms: int | None = None
    entry_id: str | None = None

    def range_within(self, first: str, last: str) -> IdRange:
        """The part of a stream between two ids that can hold matching entries; one that ends before it begins is
        empty."""
        low, high = as_number(first), as_number(last)
        if self.from_ms is not None:
            low = max(low, as_number(at_ms(self.from_ms)))
        if self.until_ms is not None:
            high = min(high, as_number(f"{self.until_ms}-{_HIGHEST_SEQUENCE}"))
        if self.entry_id is not None:
            low, high = max(low, as_number(self.entry_id)), min(high, as_number(self.entry_id))
        return IdRange(as_text(low), as_text(high))

    def scores(self) -> tuple[str, str]:
        """The same as scores of the delayed set, which have fractions, as ZRANGEBYSCORE takes them."""
        low = "-inf" if self.from_ms is None else f"{self.from_ms}"
        return low, "+inf" if self.until_ms is None else f"({self.until_ms + 1}"

    def has_score(self, score: float) -> bool:
        """Whether a score is within, and not where the range begins."""
        after_start = self.from_ms is None or score > self.from_ms
        return after_start and (self.until_ms is None or score < self.until_ms + 1)


_ALL = Narrowed()


def narrow(entity: str, filters: Sequence[Filter], found: Narrowed = _ALL) -> Narrowed:
    """The part of a range of an entity that passes all of these filters."""
    for one in filters:
        column = ".".join(getattr(one, "attribute", ()))
        value = getattr(one, "value", None)
        if column == TIMES.get(entity) and (ms := _epoch_ms(value)) is not None:
            if isinstance(one, GreaterThan | GreaterThanOrEqual | EqualTo):
                found = replace(found, from_ms=max(ms, found.from_ms or 0))
            if isinstance(one, LessThan | LessThanOrEqual | EqualTo):
                found = replace(found, until_ms=ms if found.until_ms is None else min(ms, found.until_ms))
        elif column == "entry_id" and isinstance(one, EqualTo) and _is_id(value):
            found = replace(found, entry_id=value)
    return found


def _epoch_ms(value: Any) -> int | None:
    """The whole milliseconds of a moment; None if it has no zone, or lies before 1970."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    ms = (value - _EPOCH) // timedelta(milliseconds=1)
    return ms if ms >= 0 else None


def _is_id(value: Any) -> bool:
    try:
        as_number(value)
    except (ConfigError, ValueError, AttributeError, TypeError):
        return False
    return True
