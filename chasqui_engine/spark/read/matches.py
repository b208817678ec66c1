"""Filters of a query on names, ids and states: rows that they leave out are dropped in the task that reads them.

Spark evaluates every filter again, so more may be kept than they let through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import EqualTo, Filter, In

from chasqui_engine.spark.schemas import COLUMNS

Matches = Mapping[str, frozenset[str]]
"""For some columns, the texts that pass."""


def find_matches(entity: str, filters: Sequence[Filter]) -> Matches:
    """The columns of text that must be equal to something."""
    found: dict[str, frozenset[str]] = {}
    for one in filters:
        column = ".".join(getattr(one, "attribute", ()))
        texts = _texts(one)
        if texts is not None and COLUMNS[entity].get(column) == "string":
            found[column] = found.get(column, texts) & texts
    return found


def _texts(one: Filter) -> frozenset[str] | None:
    """What a filter lets through; None if it says something else."""
    value: Any = getattr(one, "value", None)
    if isinstance(one, EqualTo) and isinstance(value, str):
        return frozenset([value])
    if isinstance(one, In) and all(isinstance(text, str) for text in value):
        return frozenset(value)
    return None


def keep_matching(batches: Iterator[pa.RecordBatch], matches: Matches) -> Iterator[pa.RecordBatch]:
    """The rows that match."""
    for batch in batches:
        kept = batch
        for column, texts in matches.items():
            if column in kept.schema.names:
                kept = kept.filter(pc.is_in(kept[column], pa.array(sorted(texts), pa.string())))
        if kept.num_rows:
            yield kept


def take(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.RecordBatch]:
    """The first rows, and nothing is read after them."""
    left = most
    for batch in batches:
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
