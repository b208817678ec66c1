"""The options of a read or write, checked before anything else happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chasqui_engine.spark.read.offsets import starting_id, timestamp_ms
from chasqui_engine.spark.schemas import ENTITIES, TIMED
from chasqui_engine.values.config import ProducerConfig
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.validation import check_queue_name

_WHERE = ("queue", "url", "connId", "credentials")
_READ = ("entity", "columns", "pageSize", "minPartitions", "startingTimestamp")
_SNAPSHOT = ("limit", "endingTimestamp")
_FOLLOW = ("startingOffsets", "maxRowsPerTrigger", "failOnDataLoss")
_NAMED = ("writeId",)
_WRITE = (
    "fence",
    "fenceTtlSeconds",
    "chunkSize",
    "maxRowsPerSecond",
    "maxStreamLen",
    "whenFull",
    "fullTimeoutSeconds",
    "dedupTtlSeconds",
    "payloadFormat",
    "maxDelaySeconds",
    "eventsMaxLen",
)
_CHECKPOINT = ("checkpointLocation",)

Use = Literal["read", "readStream", "write", "writeStream"]
_TAKEN: dict[Use, tuple[str, ...]] = {
    "read": (*_WHERE, *_READ, *_SNAPSHOT),
    "readStream": (*_WHERE, *_READ, *_FOLLOW),
    "write": (*_WHERE, *_NAMED, *_WRITE),
    "writeStream": (*_WHERE, *_WRITE, *_CHECKPOINT),
}
"""The options of each way to use the format."""
_NO_TABLE = (
    "A queue cannot be a table, because Spark does not pass on the options of CREATE TABLE; "
    "use CREATE TEMPORARY VIEW … USING chasqui OPTIONS (connId '…', queue '…')"
)
_DEFAULTS = ProducerConfig()


def select_options(use: Use, options: Mapping[str, str]) -> dict[str, str]:
    """Selects the options of one use."""
    known = {name.lower() for name in _TAKEN[use]}
    return {name: value for name, value in options.items() if name.lower() in known}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a queue is read."""

    queue: str
    entity: str
    columns: tuple[str, ...] | None
    """The only ones to make."""
    limit: int | None
    """Of rows, before any filter."""
    page_size: int
    min_partitions: int | None
    """None: as many as there are cores, or fewer where there is little to read."""
    starting_offsets: str
    starting_timestamp: str | None
    ending_timestamp: str | None
    max_rows_per_trigger: int | None
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows become jobs."""

    queue: str
    write_id: str | None
    """Given by the user: a second run with the same id adds only what is missing."""
    fence: str | None
    """"chunk", "id", "none"; None: by id where there is an id column, else by chunk."""
    fence_ttl_s: int
    chunk_size: int
    max_rows_per_s: float | None
    max_stream_len: int
    when_full: str
    full_timeout_s: float
    dedup_ttl_s: int
    max_delay_s: int
    events_max: int
    payload_format: str | None


def read_options(given: Mapping[str, str], use: Use | None = "readStream") -> ReadOptions:
    """The options of a read; of either way to read if there is no `use`."""
    options = _check_names(given, use)
    entity = options.get("entity", "events")
    if entity not in ENTITIES:
        raise ConfigError(f"entity must be one of {', '.join(ENTITIES)}, got {entity!r}")
    read = ReadOptions(
        queue=_parse_queue(options),
        entity=entity,
        columns=_parse_columns(options),
        limit=_parse_int(options, "limit", None),
        page_size=_parse_int(options, "pageSize", 2000, most=100_000),
        min_partitions=_parse_int(options, "minPartitions", None, most=100_000),
        starting_offsets=options.get("startingoffsets", "earliest").strip(),
        starting_timestamp=options.get("startingtimestamp"),
        ending_timestamp=options.get("endingtimestamp"),
        max_rows_per_trigger=_parse_int(options, "maxRowsPerTrigger", None),
        fail_on_data_loss=_parse_flag(options, "failOnDataLoss", True),
    )
    if read.starting_timestamp is not None and "startingoffsets" in options:
        raise ConfigError("pass startingOffsets or startingTimestamp, not both")
    starting_id(read.starting_offsets, read.starting_timestamp)
    for name, text in (("startingTimestamp", read.starting_timestamp), ("endingTimestamp", read.ending_timestamp)):
        if text is not None and entity not in TIMED:
            raise ConfigError(f"{name} is for {', '.join(TIMED)}; {entity} have no time in Redis: leave it out")
        if text is not None and timestamp_ms(text, name) == 0 and name == "endingTimestamp":
            raise ConfigError("endingTimestamp must be after 1970 began: nothing is before")
    return read


def write_options(given: Mapping[str, str], use: Use = "write") -> WriteOptions:
    """The options of a write."""
    options = _check_names(given, use)
    max_stream_len = _parse_int(options, "maxStreamLen", _DEFAULTS.max_stream_len) or 1
    when_full = _parse_choice(options, "whenFull", ("error", "wait", "trim")) or "error"
    return WriteOptions(
        queue=_parse_queue(options),
        write_id=options.get("writeid"),
        fence=_parse_choice(options, "fence", ("chunk", "id", "none")),
        fence_ttl_s=_parse_int(options, "fenceTtlSeconds", 30 * 24 * 3600) or 1,
        chunk_size=_parse_chunk_size(options, max_stream_len, when_full),
        max_rows_per_s=_parse_rate(options),
        max_stream_len=max_stream_len,
        when_full=when_full,
        full_timeout_s=float(_parse_int(options, "fullTimeoutSeconds", 600) or 1),
        dedup_ttl_s=_parse_int(options, "dedupTtlSeconds", _DEFAULTS.dedup_ttl_secs) or 1,
        max_delay_s=_parse_int(options, "maxDelaySeconds", _DEFAULTS.max_delay_secs, least=0) or 0,
        events_max=_parse_int(options, "eventsMaxLen", _DEFAULTS.events_max_stream_len, least=0) or 0,
        payload_format=_parse_choice(options, "payloadFormat", ("msgpack", "bytes", "json", "text")),
    )


def looked_up_by(given: Mapping[str, str]) -> tuple[str | None] | None:
    """What tasks look up instead of being given the URL; None if they are given it."""
    options = {key.lower(): value for key, value in given.items()}
    if _parse_choice(options, "credentials", ("driver", "executor")) != "executor":
        return None
    if "url" in options:
        raise ConfigError("credentials=executor sends no URL to tasks: pass connId, or set CHASQUI_REDIS_URL, not url")
    return (options.get("connid"),)


def _check_names(given: Mapping[str, str], use: Use | None) -> dict[str, str]:
    options = {key.lower(): value for key, value in given.items()}
    if not options or any(key.startswith("option.") for key in options):
        raise ConfigError(f"format('chasqui') needs .option('queue', …). {_NO_TABLE}")
    if "path" in options:
        raise ConfigError(f"a queue has no path, got {options['path']!r}: pass its name as .option('queue', …)")
    uses: tuple[Use, ...] = ("read", "readStream") if use is None else (use,)
    taken = {name.lower() for one in uses for name in _TAKEN[one]}
    for name in sorted(options.keys() - taken):
        spelt = {known.lower(): known for names in _TAKEN.values() for known in names}
        if name not in spelt:
            raise ConfigError(f"format('chasqui') has no option {name!r}")
        where = " and ".join(
            f"spark.{u}" if u.startswith("read") else f"df.{u}" for u in _TAKEN if spelt[name] in _TAKEN[u]
        )
        raise ConfigError(f"{spelt[name]} is an option of {where} and has no effect here: leave it out")
    return options


def _parse_chunk_size(options: Mapping[str, str], max_stream_len: int, when_full: str) -> int:
    most = 5000 if when_full == "trim" else min(5000, max_stream_len)
    size: int = _parse_int(options, "chunkSize", min(1000, most), most=5000)
    if size > most:
        raise ConfigError(
            f"chunkSize={size} never fits into maxStreamLen={max_stream_len}: lower chunkSize or raise maxStreamLen"
        )
    return size


def _parse_queue(options: Mapping[str, str]) -> str:
    if "queue" not in options:
        raise ConfigError("format('chasqui') needs .option('queue', …)")
    return check_queue_name(options["queue"], "queue")


def _parse_columns(options: Mapping[str, str]) -> tuple[str, ...] | None:
    text = options.get("columns")
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(f"columns must be names with commas between, each once, got {text!r}")
    return names


def _parse_int(options: Mapping[str, str], name: str, default: int | None, *, least: int = 1, most: int = 2**53) -> Any:
    text = options.get(name.lower())
    if text is None:
        return default
    if not text.strip().isdecimal() or not least <= int(text) <= most:
        raise ConfigError(f"{name} must be a whole number from {least} to {most}, got {text!r}")
    return int(text)


def _parse_rate(options: Mapping[str, str]) -> float | None:
    text = options.get("maxrowspersecond")
    if text is None:
        return None
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e12:
        raise ConfigError(f"maxRowsPerSecond must be a number above 0, got {text!r}")
    return rate


def _parse_flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, got {text!r}")
    return text == "true"


def _parse_choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
    text = options.get(name.lower())
    if text is not None and text not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {text!r}")
    return text
