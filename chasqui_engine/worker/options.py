"""A worker's arguments, named as in ChasquiMQ, as the settings of a consumer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chasqui_engine.queue.coercion import as_backoff
from chasqui_engine.values.config import ConsumerConfig, SchedulerConfig
from chasqui_engine.values.validation import check_whole_number

_OTHERS = {"self", "name", "handler", "redis_url", "tls", "credential_provider", "middleware", "tracing"}
"""Arguments that are no settings of a consumer."""
_FIELDS = {
    "read_block_ms": "block_ms",
    "read_count": "batch",
    "result_ttl_ms": "result_ttl_secs",
    "scheduler_tick_ms": "scheduler",
}
"""What the settings call differently."""


def make_config(arguments: Mapping[str, Any]) -> ConsumerConfig:
    """The settings of a consumer, from all arguments of a worker; one that is None keeps its default."""
    given = {name: value for name, value in arguments.items() if value is not None and name not in _OTHERS}
    return ConsumerConfig(**{_FIELDS.get(name, name): _convert(name, value) for name, value in given.items()})


def _convert(name: str, value: Any) -> Any:
    convert = _CONVERT.get(name)
    return value if convert is None else convert(value)


def _whole_seconds(ttl_ms: int) -> int:
    return -(-check_whole_number(ttl_ms, "result_ttl_ms", 1) // 1000)


def _scheduler(tick_ms: int) -> SchedulerConfig:
    return SchedulerConfig(tick_interval_ms=tick_ms)


_CONVERT: dict[str, Callable[[Any], Any]] = {
    "backoff": as_backoff,
    "result_ttl_ms": _whole_seconds,
    "scheduler_tick_ms": _scheduler,
}
"""What the settings hold in another form."""
