"""Rows of Arrow batches as encoded jobs: what a writing task does before it talks to the server. No Spark needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from chasqui_engine._redis.bulk_writing import MixedJob
from chasqui_engine.backoff import BackoffSpec
from chasqui_engine.clock import now_ms
from chasqui_engine.codec import encode_delayed, encode_envelope, encode_payload
from chasqui_engine.errors import ConfigError
from chasqui_engine.ids import mint_ids
from chasqui_engine.job import JobRetryOverride
from chasqui_engine.names import check_job_id, check_job_name
from chasqui_engine.spark.fence import digest

_MOST_BYTES = 4 * 1024 * 1024
"""Of payloads in one chunk, so that the server is not busy with one for long."""

_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]

_BACKOFF = ("kind", "delay_ms", "max_delay_ms", "multiplier", "jitter_ms")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Encoded jobs that go to the server together."""

    rows: int
    digest: str
    plain: list[str | bytes | int | float] | None
    """Name, envelope, name, envelope …: jobs for now without an id of their own."""
    mixed: list[MixedJob] = field(default_factory=list)


def chunks(batch: pa.RecordBatch, size: int, payload_format: str | None, max_delay_s: int) -> Iterator[Chunk]:
    """A batch as chunks of at most `size` rows; the same batch always falls into the same chunks."""
    names = _names(batch)
    payloads = _payloads(batch.column("payload"), payload_format)
    for start, end in _cuts(payloads, size):
        part = batch.slice(start, end - start)
        yield _chunk(part, names[start:end], payloads[start:end], max_delay_s)


def _cuts(payloads: list[bytes], size: int) -> Iterator[tuple[int, int]]:
    if payloads and max(map(len, payloads)) * size <= _MOST_BYTES:
        yield from ((start, min(start + size, len(payloads))) for start in range(0, len(payloads), size))
        return
    start = held = 0
    for end, payload in enumerate(payloads):
        if end > start and (end - start >= size or held + len(payload) > _MOST_BYTES):
            yield start, end
            start, held = end, 0
        held += len(payload)
    if start < len(payloads):
        yield start, len(payloads)


def _chunk(part: pa.RecordBatch, names: list[str], payloads: list[bytes], max_delay_s: int) -> Chunk:
    created = now_ms()
    columns = {name: part.column(name) for name in part.schema.names}
    retries = _retries(columns, len(names))
    moments = _moments(columns, len(names), created, max_delay_s)
    own_ids = _own_ids(columns)
    rest = None if retries is None and moments is None and own_ids is None else (retries, moments, own_ids)
    mark = digest(names, payloads, rest)
    ids = mint_ids(len(names), created) if own_ids is None else own_ids
    if retries is None:
        envelopes = [encode_envelope(i, payload, created) for i, payload in zip(ids, payloads, strict=True)]
    else:
        rows = zip(ids, payloads, retries, strict=True)
        envelopes = [encode_envelope(i, payload, created, 0, retry) for i, payload, retry in rows]
    if moments is None and own_ids is None:
        flat: list[Any] = [None] * (2 * len(names))
        flat[::2], flat[1::2] = names, envelopes
        return Chunk(len(names), mark, flat)
    whens = moments or [(None, None)] * len(names)
    mixed = [
        MixedJob(
            name=name,
            envelope=envelope,
            member=b"" if run_at is None and delay is None else encode_delayed(name, envelope),
            run_at_ms=run_at,
            delay_ms=delay,
            job_id=job_id,
            own_id=own_ids is not None,
        )
        for name, envelope, job_id, (run_at, delay) in zip(names, envelopes, ids, whens, strict=True)
    ]
    return Chunk(len(names), mark, None, mixed)


def _names(batch: pa.RecordBatch) -> list[str]:
    names = ["" if name is None else name for name in batch.column("name").to_pylist()]
    for name in set(names):
        check_job_name(name)
    return names


def _own_ids(columns: dict[str, pa.Array]) -> list[str] | None:
    if "id" not in columns:
        return None
    ids: list[str] = columns["id"].to_pylist()
    if None in ids:
        raise ConfigError("column id is null in some rows: with an id column every job needs one")
    for job_id in ids:
        check_job_id(job_id)
    return ids


def _moments(
    columns: dict[str, pa.Array], count: int, now: int, max_delay_s: int
) -> list[tuple[int | None, int | None]] | None:
    if "delay_ms" not in columns and "run_at" not in columns:
        return None
    delays: list[int | None] = columns["delay_ms"].to_pylist() if "delay_ms" in columns else [None] * count
    times: list[int | None] = [None] * count
    if "run_at" in columns:
        micros = columns["run_at"].cast(pa.timestamp("us", columns["run_at"].type.tz)).cast(pa.int64()).to_pylist()
        times = [None if value is None else value // 1000 for value in micros]
    for delay, run_at in zip(delays, times, strict=True):
        if delay is not None and run_at is not None:
            raise ConfigError("a row has both delay_ms and run_at; give one of them and leave the other null")
        if delay is not None and delay < 0:
            raise ConfigError(f"delay_ms must not be negative, got {delay}")
        furthest = delay or (run_at or now) - now
        if max_delay_s and furthest > max_delay_s * 1000:
            raise ConfigError(f"a delay of {furthest / 1000:.0f} s is over maxDelaySeconds={max_delay_s} (0: no cap)")
    return list(zip(times, delays, strict=True))


def _retries(columns: dict[str, pa.Array], count: int) -> list[JobRetryOverride | None] | None:
    given = {name for name in columns if name == "attempts" or name.startswith("backoff_")}
    if not given:
        return None
    attempts = columns["attempts"].to_pylist() if "attempts" in given else [None] * count
    parts = {
        part: columns[f"backoff_{part}"].to_pylist() if f"backoff_{part}" in given else [None] * count
        for part in _BACKOFF
    }
    return [_retry(attempts[row], {part: values[row] for part, values in parts.items()}) for row in range(count)]


def _retry(attempts: int | None, parts: dict[str, Any]) -> JobRetryOverride | None:
    if all(value is None for value in parts.values()):
        return None if attempts is None else JobRetryOverride(attempts)
    if parts["delay_ms"] is None:
        raise ConfigError("a row with a backoff needs backoff_delay_ms")
    kind = parts["kind"] or "exponential"
    if kind not in ("fixed", "exponential"):
        raise ConfigError(f"backoff_kind must be fixed or exponential, got {kind!r}")
    spec = BackoffSpec(kind, parts["delay_ms"], parts["max_delay_ms"], parts["multiplier"], parts["jitter_ms"])
    return JobRetryOverride(attempts, spec)


def _payloads(column: pa.Array, payload_format: str | None) -> list[bytes]:
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        values = column.to_pylist()
        if payload_format == "bytes":
            return [encode_payload(value) for value in values]
        return [b"\xc0" if value is None else value for value in values]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        values = column.to_pylist()
        if payload_format == "text":
            return [encode_payload(value) for value in values]
        return [b"\xc0" if value is None else encode_payload(_json(value)) for value in values]
    return [encode_payload(value) for value in plain_values(column)]


def _json(text: str) -> Any:
    # The scanner alone costs a third of `loads`; what it does not take to the end, `loads` judges.
    try:
        value, end = _scan(text, 0)
    except (StopIteration, ValueError):
        value, end = None, -1
    if end == len(text):
        return value
    try:
        return json.loads(text)
    except ValueError as err:
        raise ConfigError(
            f"payload is text that is not JSON ({err}); .option('payloadFormat', 'text') takes it as text"
        ) from err


def plain_values(column: pa.Array) -> list[Any]:
    """A column as values that MessagePack holds: structs and maps as dicts, times as ISO 8601, decimals as text."""
    kind = column.type
    if pa.types.is_struct(kind):
        names = [kind.field(n).name for n in range(kind.num_fields)]
        parts = [plain_values(column.field(n)) for n in range(kind.num_fields)]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*parts, strict=True)] if parts else [{}] * len(column)
        if not column.null_count:
            return rows
        return [row if valid else None for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)]
    values = column.to_pylist()
    convert = _converter(kind)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What one value needs; None where values are plain already."""
    if pa.types.is_map(kind):
        of_key, of_item = _converter(kind.key_type) or _same, _converter(kind.item_type) or _same
        return lambda pairs: {of_key(key): None if item is None else of_item(item) for key, item in pairs}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of_value = _converter(kind.value_type)
        return None if of_value is None else lambda items: [None if item is None else of_value(item) for item in items]
    if pa.types.is_struct(kind):
        inner = {kind.field(n).name: _converter(kind.field(n).type) or _same for n in range(kind.num_fields)}
        return lambda row: {name: None if row[name] is None else convert(row[name]) for name, convert in inner.items()}
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return _scalar
    return None


def _same(value: Any) -> Any:
    return value


def _scalar(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime | date) else str(value)
