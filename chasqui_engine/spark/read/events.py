"""Pages of the events stream as Arrow batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chasqui_engine.spark.read.resp_page import Page, all_ids, arrow_int, arrow_text, find_fields

_FIELDS = {
    "ts": "ts",
    "event": "e",
    "job_id": "id",
    "name": "n",
    "attempt": "attempt",
    "duration_us": "duration_us",
    "reason": "reason",
    "backoff_ms": "backoff_ms",
    "delay_ms": "delay_ms",
    "enqueued_at": "enqueued_at_ms",
}
_MILLIS = pa.timestamp("ms", tz="UTC")
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""From the year 1 to the year 9999."""


def events_batch(page: Page, queue: str, schema: pa.Schema) -> pa.RecordBatch:
    """A page that was parsed by numpy, as a batch."""
    wanted = [_FIELDS[name] for name in schema.names if name in _FIELDS]
    found = find_fields(page, wanted)
    columns = []
    for field in schema:
        if field.name == "queue":
            columns.append(repeat_text(queue, page.count))
        elif field.name == "entry_id":
            columns.append(all_ids(page))
        elif not len(found[_FIELDS[field.name]][0]):
            columns.append(pa.nulls(page.count, field.type))
        else:
            columns.append(cast_texts(arrow_text(page, *found[_FIELDS[field.name]]), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def events_batch_of_entries(entries: list[Any], queue: str, schema: pa.Schema) -> pa.RecordBatch:
    """The same from entries that hiredis parsed: for pages that are not plain."""
    rows = [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in entries]
    columns = []
    for field in schema:
        if field.name == "queue":
            columns.append(repeat_text(queue, len(entries)))
        elif field.name == "entry_id":
            columns.append(pa.array([entry[0].decode() for entry in entries], pa.string()))
        else:
            key = _FIELDS[field.name].encode()
            texts = [None if (v := row.get(key)) is None else v.decode(errors="replace") for row in rows]
            columns.append(cast_texts(pa.array(texts, pa.string()), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def cast_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Text as the type of a column."""
    if kind == pa.string():
        return texts
    if pa.types.is_timestamp(kind):
        return pc.cast(_within_calendar(arrow_int(texts, pa.int64())).cast(_MILLIS), kind, safe=False)
    return arrow_int(texts, kind)


def _within_calendar(millis: pa.Array) -> pa.Array:
    """Times; null where they are further away than a calendar goes."""
    bounds = pc.min_max(millis).as_py()
    if bounds["min"] is None or (bounds["min"] >= _FIRST_MS and bounds["max"] <= _LAST_MS):
        return millis
    inside = pc.and_(pc.greater_equal(millis, _FIRST_MS), pc.less_equal(millis, _LAST_MS))
    return pc.if_else(inside, millis, pa.scalar(None, millis.type))


def repeat_text(text: str, count: int) -> pa.Array:
    """A column with the same text in every row."""
    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)])
