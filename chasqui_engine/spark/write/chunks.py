"""Rows of Arrow batches as chunks of encoded jobs. Needs neither Spark nor a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from chasqui_engine._redis.blocking.write import MixedJob
from chasqui_engine.codec.envelope import encode_delayed, encode_envelope, encode_envelopes
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.spark.write.fence import digest
from chasqui_engine.spark.write.payloads import encode_column, map_rows
from chasqui_engine.values.backoff import BackoffSpec
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.ids import mint_ids
from chasqui_engine.values.job import JobRetryOverride
from chasqui_engine.values.validation import check_job_id, check_job_name

_MOST_BYTES = 4 * 1024 * 1024
"""Bytes of payloads in one chunk, so that a chunk does not block the server for long."""

_BACKOFF = ("kind", "delay_ms", "max_delay_ms", "multiplier", "jitter_ms")


@dataclass(frozen=True, slots=True)
class Chunk:
    """Encoded jobs that are sent in one command."""

    rows: int
    digest: str
    plain: list[str | bytes | int | float] | None
    """Name, envelope, name, envelope …: jobs for now without an id of their own."""
    mixed: list[MixedJob] = field(default_factory=list)


def cut_chunks(
    batches: Iterable[pa.RecordBatch], size: int, payload_format: str | None, max_delay_s: int
) -> Iterator[Chunk]:
    """Rows as chunks of at most `size`. Which rows are in a chunk does not depend on the sizes of the batches."""
    buffer = _RowBuffer([], [], None, 0)
    for batch in _slices(batches, size):
        buffer = buffer.with_rows(batch, payload_format)
        spans = list(_chunk_spans(buffer.payloads, size))
        # The last one may take rows of the next batch.
        rest = spans.pop()[0] if spans and spans[-1][1] - spans[-1][0] < size else len(buffer.payloads)
        yield from (_encode_chunk(buffer.part(start, end), max_delay_s) for start, end in spans)
        buffer = buffer.part(rest, len(buffer.payloads))
    if buffer.payloads:
        yield _encode_chunk(buffer, max_delay_s)


def _slices(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """At most a chunk at a time: the server writes one while the rows of the next are encoded."""
    for batch in batches:
        for start in range(0, batch.num_rows, size):
            yield batch.slice(start, size)


@dataclass(frozen=True, slots=True)
class _RowBuffer:
    """Some rows of a partition, their payloads encoded."""

    names: list[str]
    payloads: list[bytes]
    others: pa.RecordBatch | None
    """The columns that are neither name nor payload, if there are any."""
    first: int
    """The number of the first row within its partition, for errors."""

    def with_rows(self, batch: pa.RecordBatch, payload_format: str | None) -> _RowBuffer:
        """These rows and those of a batch."""
        first = self.first + len(self.payloads)
        names = _check_names(batch.column("name"), first)
        payloads = encode_column(batch.column("payload"), payload_format, first)
        columns = [name for name in batch.schema.names if name not in ("name", "payload")]
        others = batch.select(columns) if columns else None
        if not self.payloads:
            return _RowBuffer(names, payloads, others, self.first)
        if others is not None:
            others = pa.concat_batches([self.others, others])
        return _RowBuffer(self.names + names, self.payloads + payloads, others, self.first)

    def part(self, start: int, end: int) -> _RowBuffer:
        """Some of these rows."""
        others = None if self.others is None else self.others.slice(start, end - start)
        return _RowBuffer(self.names[start:end], self.payloads[start:end], others, self.first + start)


def _chunk_spans(payloads: list[bytes], size: int) -> Iterator[tuple[int, int]]:
    if payloads and max(map(len, payloads)) * size <= _MOST_BYTES:
        yield from ((start, min(start + size, len(payloads))) for start in range(0, len(payloads), size))
        return
    start = size_so_far = 0
    for end, payload in enumerate(payloads):
        if end > start and (end - start >= size or size_so_far + len(payload) > _MOST_BYTES):
            yield start, end
            start, size_so_far = end, 0
        size_so_far += len(payload)
    if start < len(payloads):
        yield start, len(payloads)


def _encode_chunk(rows: _RowBuffer, max_delay_s: int) -> Chunk:
    created = now_ms()
    names, payloads = rows.names, rows.payloads
    columns = {} if rows.others is None else {name: rows.others.column(name) for name in rows.others.schema.names}
    retries = _read_retries(columns, len(names), rows.first)
    moments = _read_run_times(columns, len(names), created, max_delay_s, rows.first)
    own_ids = _check_ids(columns, rows.first)
    rest = None if retries is None and moments is None and own_ids is None else (retries, moments, own_ids)
    mark = digest(names, payloads, rest)
    ids = mint_ids(len(names), created) if own_ids is None else own_ids
    if retries is None:
        envelopes = encode_envelopes(ids, payloads, created)
    else:
        jobs = zip(ids, payloads, retries, strict=True)
        envelopes = [encode_envelope(i, payload, created, 0, retry) for i, payload, retry in jobs]
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


def _check_names(column: pa.Array, first: int) -> list[str]:
    names = ["" if name is None else name for name in column.to_pylist()]
    try:
        for name in set(names):
            check_job_name(name)
    except ConfigError:
        return map_rows(names, check_job_name, "name", first)
    return names


def _check_ids(columns: dict[str, pa.Array], first: int) -> list[str] | None:
    if "id" not in columns:
        return None
    ids: list[str | None] = columns["id"].to_pylist()
    return map_rows(ids, _check_id, "id", first)


def _check_id(job_id: str | None) -> str:
    if job_id is None:
        raise ConfigError("is null: with an id column every job needs one")
    return check_job_id(job_id)


def _read_run_times(
    columns: dict[str, pa.Array], count: int, now: int, max_delay_s: int, first: int
) -> list[tuple[int | None, int | None]] | None:
    if "delay_ms" not in columns and "run_at" not in columns:
        return None
    delays: list[int | None] = columns["delay_ms"].to_pylist() if "delay_ms" in columns else [None] * count
    times: list[int | None] = [None] * count
    if "run_at" in columns:
        micros = columns["run_at"].cast(pa.timestamp("us", columns["run_at"].type.tz)).cast(pa.int64()).to_pylist()
        times = [None if value is None else value // 1000 for value in micros]

    def check(moment: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        run_at, delay = moment
        if delay is not None and run_at is not None:
            raise ConfigError("a row has both delay_ms and run_at; give one of them and leave the other null")
        if delay is not None and delay < 0:
            raise ConfigError(f"delay_ms must not be negative, got {delay}")
        furthest = delay or (run_at or now) - now
        if max_delay_s and furthest > max_delay_s * 1000:
            raise ConfigError(f"a delay of {furthest / 1000:.0f} s is over maxDelaySeconds={max_delay_s} (0: no cap)")
        return moment

    column = "delay_ms" if "run_at" not in columns else "run_at"
    return map_rows(list(zip(times, delays, strict=True)), check, column, first)


def _read_retries(columns: dict[str, pa.Array], count: int, first: int) -> list[JobRetryOverride | None] | None:
    given = {name for name in columns if name == "attempts" or name.startswith("backoff_")}
    if not given:
        return None
    attempts = columns["attempts"].to_pylist() if "attempts" in given else [None] * count
    parts = {
        part: columns[f"backoff_{part}"].to_pylist() if f"backoff_{part}" in given else [None] * count
        for part in _BACKOFF
    }
    rows = [(attempts[row], {part: values[row] for part, values in parts.items()}) for row in range(count)]
    return map_rows(rows, lambda row: _build_retry(*row), "attempts" if len(given) == 1 else "backoff_*", first)


def _build_retry(attempts: int | None, parts: dict[str, Any]) -> JobRetryOverride | None:
    if all(value is None for value in parts.values()):
        return None if attempts is None else JobRetryOverride(attempts)
    if parts["delay_ms"] is None:
        raise ConfigError("a row with a backoff needs backoff_delay_ms")
    kind = parts["kind"] or "exponential"
    if kind not in ("fixed", "exponential"):
        raise ConfigError(f"backoff_kind must be fixed or exponential, got {kind!r}")
    spec = BackoffSpec(kind, parts["delay_ms"], parts["max_delay_ms"], parts["multiplier"], parts["jitter_ms"])
    return JobRetryOverride(attempts, spec)
