"""Jobs, dead letters, delayed jobs, repeatable specs and results as rows."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from chasqui_engine._redis.blocking.redrive import RedriveMark
from chasqui_engine.codec.envelope import decode_failure, decode_job, decode_payload, encode_payload
from chasqui_engine.codec.repeatable import decode_spec
from chasqui_engine.payload_json import json_text
from chasqui_engine.spark.schemas import JOB
from chasqui_engine.values.errors import ChasquiError
from chasqui_engine.values.stream_ids import ms_of

Row = dict[str, Any]
Columns = Set[str]
"""Of a row, the ones that are read; others may be left out."""
_DECODED = JOB.keys() - {"name", "envelope"}
"""Columns for which an envelope must be opened."""
_ALL = frozenset(JOB)


def batch_of(rows: Sequence[Row], queue: str, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as an Arrow batch; what a row lacks, or its column cannot hold, is null."""
    columns = [
        _column([queue] * len(rows) if field.name == "queue" else [row.get(field.name) for row in rows], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (ValueError, TypeError, OverflowError):
        # Other programs write into queues too: one value that does not fit must not hide the others.
        return pa.array([value if _fits(value, kind) else None for value in values], kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.scalar(value, kind)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def job_row(entry: Sequence[Any], columns: Columns = _ALL) -> Row:
    """An entry of the job stream."""
    entry_id, fields = entry[0].decode(), _fields(entry[1])
    name = _text(fields.get(b"n", b""))
    return {"entry_id": entry_id, "ready_at": _moment(ms_of(entry_id)), **_job(fields.get(b"d"), name, columns)}


def dead_row(entry: Sequence[Any], columns: Columns = _ALL) -> Row:
    """An entry of the dead-letter stream."""
    entry_id, fields = entry[0].decode(), _fields(entry[1])
    detail = fields.get(b"detail")
    return {
        "entry_id": entry_id,
        "died_at": _moment(ms_of(entry_id)),
        "source_id": _text(fields.get(b"source_id", b"")),
        "reason": _text(fields.get(b"reason", b"")),
        "detail": None if detail is None else _text(detail),
        **_job(fields.get(b"d"), _text(fields.get(b"n", b"")), columns),
    }


def redriven_columns(mark: RedriveMark | None) -> Row:
    """The redrive of a dead letter."""
    if mark is None:
        return {}
    return {
        "redriven_at": _moment(mark.at_ms),
        "redriven_by": mark.by,
        "redriven_queue": mark.queue,
        "redriven_job_id": mark.job_id,
    }


def delayed_row(score: float, name: str, envelope: bytes, columns: Columns = _ALL) -> Row:
    """A member of the delayed set."""
    return {"run_at": _moment(score), **_job(envelope, name, columns)}


def spec_row(key: str, next_fire_ms: float, data: bytes | None, fired: int) -> Row:
    """A repeatable spec; one that cannot be read has a key and a time."""
    row: Row = {"key": key, "next_fire": _moment(next_fire_ms), "fired": fired}
    if data is None:
        return row
    try:
        spec = decode_spec(data)
    except ChasquiError:
        return row
    return row | {
        "job_name": spec.job_name,
        "kind": spec.pattern.kind,
        "expression": spec.pattern.expression,
        "tz": spec.pattern.tz,
        "interval_ms": spec.pattern.interval_ms,
        "limit": spec.limit,
        "start_after": _moment(spec.start_after_ms),
        "end_before": _moment(spec.end_before_ms),
        "missed_fires": spec.missed_fires.kind,
        "max_catchup": spec.missed_fires.max_catchup,
        "payload": _pack(spec.payload),
        "payload_json": json_text(spec.payload, compact=True),
    }


def result_row(job_id: str, value: bytes, expires_at_ms: int | None) -> Row:
    """A result that is kept."""
    return {
        "job_id": job_id,
        "outcome": "completed",
        "result": value,
        "result_json": json_of(value),
        "expires_at": _moment(expires_at_ms),
    }


def failure_row(job_id: str, value: bytes, expires_at_ms: int | None) -> Row:
    """The failure record of a dead job."""
    row: Row = {"job_id": job_id, "outcome": "dead", "expires_at": _moment(expires_at_ms)}
    try:
        row["reason"], row["detail"], row["attempts"] = decode_failure(value)
    except ChasquiError:
        row["reason"] = "decode_failed"
    return row


def json_of(packed: bytes) -> str | None:
    """MessagePack as JSON text; None when it is no MessagePack."""
    try:
        return json_text(decode_payload(packed), compact=True)
    except ChasquiError:
        return None


def _job(envelope: bytes | None, name: str, columns: Columns) -> Row:
    row: Row = {"name": name, "envelope": envelope}
    if envelope is None or columns.isdisjoint(_DECODED):
        return row
    try:
        job = decode_job(envelope, name)
        packed = decode_payload(envelope)[1]
    except ChasquiError:
        return row
    retry = job.retry
    backoff = None if retry is None else retry.backoff
    row |= {
        "job_id": job.id,
        # A typed producer of another engine may write the value itself in place of its bytes.
        "payload": packed if isinstance(packed, bytes) else _pack(job.payload),
        "payload_json": json_text(job.payload, compact=True) if "payload_json" in columns else None,
        "created_at": _moment(job.created_at_ms),
        "attempt": job.attempt,
        "max_attempts": None if retry is None else retry.max_attempts,
    }
    if backoff is not None:
        for field in ("kind", "delay_ms", "max_delay_ms", "multiplier", "jitter_ms"):
            row[f"backoff_{field}"] = getattr(backoff, field)
    return row


def _pack(value: Any) -> bytes | None:
    """A value as MessagePack; None if it is nested too deeply to be written, though it could be read."""
    try:
        return encode_payload(value)
    except ChasquiError:
        return None


def _fields(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _moment(ms: float | None) -> datetime | None:
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(int(ms) // 1000, tz=UTC).replace(microsecond=int(ms) % 1000 * 1000)
    except (ValueError, OverflowError, OSError):  # further away than a calendar goes
        return None
