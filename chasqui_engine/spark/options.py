"""What `.option(...)` may say, checked before anything else happens."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import quote, urlencode

from chasqui_engine._redis.urls import resolve_url
from chasqui_engine.config import ProducerConfig
from chasqui_engine.errors import ConfigError
from chasqui_engine.names import check_queue_name
from chasqui_engine.spark.schemas import ENTITIES

CONNECTIONS_GROUP = "chasqui.connections"
"""Entry points that make a URL of a connection's name: `def url(conn_id: str) -> str`."""

_KNOWN = frozenset(
    {
        "queue",
        "entity",
        "url",
        "connid",
        "path",
        "checkpointlocation",
        "pagesize",
        "minpartitions",
        "startingoffsets",
        "startingtimestamp",
        "maxrowspertrigger",
        "failondataloss",
        "writeid",
        "fence",
        "fencettlseconds",
        "chunksize",
        "maxrowspersecond",
        "maxstreamlen",
        "whenfull",
        "fulltimeoutseconds",
        "dedupttlseconds",
        "payloadformat",
        "maxdelayseconds",
        "eventsmaxlen",
    }
)
_DEFAULTS = ProducerConfig()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a queue is read."""

    queue: str
    entity: str
    page_size: int
    min_partitions: int
    starting_offsets: str
    starting_timestamp: str | None
    max_rows_per_trigger: int | None
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows become jobs."""

    queue: str
    write_id: str | None
    """The user's own: a second run with the same id adds nothing that is there already."""
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


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read."""
    options = _lowered(given)
    entity = options.get("entity", "events")
    if entity not in ENTITIES:
        raise ConfigError(f"entity must be one of {', '.join(ENTITIES)}, got {entity!r}")
    return ReadOptions(
        queue=_queue(options),
        entity=entity,
        page_size=_whole(options, "pageSize", 2000, most=100_000),
        min_partitions=_whole(options, "minPartitions", max(2, os.cpu_count() or 2), most=100_000),
        starting_offsets=options.get("startingoffsets", "earliest"),
        starting_timestamp=options.get("startingtimestamp"),
        max_rows_per_trigger=_whole(options, "maxRowsPerTrigger", None),
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """The options of a write."""
    options = _lowered(given)
    return WriteOptions(
        queue=_queue(options),
        write_id=options.get("writeid"),
        fence=_choice(options, "fence", ("chunk", "id", "none")),
        fence_ttl_s=_whole(options, "fenceTtlSeconds", 30 * 24 * 3600) or 1,
        chunk_size=_whole(options, "chunkSize", 1000, most=5000) or 1,
        max_rows_per_s=_rate(options),
        max_stream_len=_whole(options, "maxStreamLen", _DEFAULTS.max_stream_len) or 1,
        when_full=_choice(options, "whenFull", ("error", "wait", "trim")) or "error",
        full_timeout_s=float(_whole(options, "fullTimeoutSeconds", 600) or 1),
        dedup_ttl_s=_whole(options, "dedupTtlSeconds", _DEFAULTS.dedup_ttl_secs) or 1,
        max_delay_s=_whole(options, "maxDelaySeconds", _DEFAULTS.max_delay_secs, least=0) or 0,
        events_max=_whole(options, "eventsMaxLen", _DEFAULTS.events_max_stream_len, least=0) or 0,
        payload_format=_choice(options, "payloadFormat", ("msgpack", "bytes", "json", "text")),
    )


def connection_url(given: Mapping[str, str]) -> str:
    """Where the queue is: `url`, or the connection that `connId` names, or the environment's."""
    options = _lowered(given)
    conn_id = options.get("connid")
    if conn_id is None:
        return resolve_url(options.get("url"))
    if "url" in options:
        raise ConfigError("pass url or connId, not both")
    stored = os.environ.get(f"AIRFLOW_CONN_{conn_id.upper()}")
    if stored is not None:
        return url_of_connection(conn_id, stored)
    for point in entry_points(group=CONNECTIONS_GROUP):
        url: str = point.load()(conn_id)
        return url
    raise ConfigError(
        f"connId {conn_id!r}: AIRFLOW_CONN_{conn_id.upper()} is not set, and no installed package looks up connections "
        f"(entry points {CONNECTIONS_GROUP})"
    )


def url_of_connection(conn_id: str, stored: str) -> str:
    """A connection as Airflow keeps it in the environment, as JSON or as a URI, as a URL of ours."""
    if not stored.lstrip().startswith("{"):
        scheme, separator, rest = stored.partition("://")
        if not separator:
            raise ConfigError(f"connection {conn_id!r} is neither a URI nor JSON")
        return f"{'redis' if scheme == 'chasqui' else scheme}://{rest}"
    fields: dict[str, Any] = json.loads(stored)
    extra = fields.get("extra") or {}
    extra = json.loads(extra) if isinstance(extra, str) else dict(extra)
    if url := extra.pop("url", None):
        return str(url)
    scheme = "rediss" if extra.pop("ssl", False) or extra.pop("tls", False) else "redis"
    login = ""
    if fields.get("login") or fields.get("password"):
        login = f"{quote(fields.get('login') or '', safe='')}:{quote(fields.get('password') or '', safe='')}@"
    database = extra.pop("db", None) or fields.get("schema") or 0
    query = urlencode({key: value for key, value in extra.items() if isinstance(value, str | int | float)})
    place = f"{fields.get('host') or 'localhost'}:{fields.get('port') or 6379}"
    return f"{scheme}://{login}{place}/{database}{'?' + query if query else ''}"


def _lowered(given: Mapping[str, str]) -> dict[str, str]:
    options = {key.lower(): value for key, value in given.items()}
    if unknown := sorted(options.keys() - _KNOWN):
        raise ConfigError(f"format('chasqui') has no option {unknown[0]!r}")
    return options


def _queue(options: Mapping[str, str]) -> str:
    if "queue" not in options:
        raise ConfigError("format('chasqui') needs .option('queue', …)")
    return check_queue_name(options["queue"], "queue")


def _whole(options: Mapping[str, str], name: str, default: int | None, *, least: int = 1, most: int = 2**53) -> Any:
    text = options.get(name.lower())
    if text is None:
        return default
    if not text.strip().isdecimal() or not least <= int(text) <= most:
        raise ConfigError(f"{name} must be a whole number from {least} to {most}, got {text!r}")
    return int(text)


def _rate(options: Mapping[str, str]) -> float | None:
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


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} must be true or false, got {text!r}")
    return text == "true"


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str | None:
    text = options.get(name.lower())
    if text is not None and text not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {text!r}")
    return text
