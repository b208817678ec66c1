"""The columns of each entity, for Spark and for Arrow. Written once, as DDL; reading it needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from chasqui_engine.values.errors import ConfigError

_ARROW = {
    "string": pa.string(),
    "binary": pa.binary(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}

JOB = {
    "job_id": "string",
    "name": "string",
    "payload": "binary",  # MessagePack, as the producer wrote it
    "payload_json": "string",
    "created_at": "timestamp",
    "attempt": "bigint",  # runs already made: up to 32 bits without a sign
    "max_attempts": "bigint",
    "backoff_kind": "string",
    "backoff_delay_ms": "bigint",
    "backoff_max_delay_ms": "bigint",
    "backoff_multiplier": "double",
    "backoff_jitter_ms": "bigint",
    "envelope": "binary",  # all of the job, also when it cannot be read
}
"""The columns of a job, wherever it is."""

COLUMNS: dict[str, dict[str, str]] = {
    "events": {
        "queue": "string",
        "entry_id": "string",
        "ts": "timestamp",
        "event": "string",
        "job_id": "string",  # empty where an event has no job
        "name": "string",
        "attempt": "bigint",  # from 1; 0 for failures before the handler ran
        "duration_us": "bigint",
        "reason": "string",
        "backoff_ms": "bigint",
        "delay_ms": "bigint",
        "enqueued_at": "timestamp",  # of `active`: when the entry was added to the stream
    },
    "jobs": {"queue": "string", "entry_id": "string", "ready_at": "timestamp", **JOB},
    "dead": {
        "queue": "string",
        "entry_id": "string",
        "died_at": "timestamp",
        "source_id": "string",
        "reason": "string",
        "detail": "string",
        **JOB,
        "redriven_at": "timestamp",
        "redriven_by": "string",
        "redriven_queue": "string",
        "redriven_job_id": "string",
    },
    "delayed": {"queue": "string", "run_at": "timestamp", **JOB},
    "repeatables": {
        "queue": "string",
        "key": "string",
        "job_name": "string",
        "kind": "string",
        "expression": "string",
        "tz": "string",
        "interval_ms": "bigint",
        "next_fire": "timestamp",
        "fired": "bigint",
        "limit": "bigint",
        "start_after": "timestamp",
        "end_before": "timestamp",
        "missed_fires": "string",
        "max_catchup": "bigint",
        "payload": "binary",
        "payload_json": "string",
    },
    "results": {
        "queue": "string",
        "job_id": "string",
        "outcome": "string",  # "completed" or "dead"
        "result": "binary",
        "result_json": "string",
        "reason": "string",
        "detail": "string",
        "attempts": "bigint",
        "expires_at": "timestamp",
    },
    "counts": {"queue": "string", "entity": "string", "rows": "bigint"},
}

ENTITIES = tuple(COLUMNS)
STREAMED = ("events", "dead", "jobs")
"""Entities that can be read as a stream: those that are streams."""
TIMED = (*STREAMED, "delayed")
"""Entities that Redis keeps in the order of time."""


def ddl(entity: str, names: Sequence[str] | None = None) -> str:
    """The schema of an entity, or of some of its columns."""
    columns = COLUMNS[entity]
    return ", ".join(f"`{name}` {columns[name]}" for name in _select(entity, names))


def arrow_schema(entity: str, names: Sequence[str] | None = None) -> pa.Schema:
    """The Arrow schema of an entity, or of some of its columns."""
    columns = COLUMNS[entity]
    return pa.schema([(name, _ARROW[columns[name]]) for name in _select(entity, names)])


def _select(entity: str, names: Sequence[str] | None) -> Sequence[str]:
    columns = COLUMNS[entity]
    if unknown := [name for name in names or () if name not in columns]:
        raise ConfigError(f"{entity} has no column {unknown[0]!r}; it has {', '.join(columns)}")
    return list(columns) if names is None else names
