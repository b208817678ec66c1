"""A worker's options, named as in ChasquiMQ, as the settings of a consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chasqui_engine.values.config import ConsumerConfig, SchedulerConfig
from chasqui_engine.values.validation import check_whole_number

_FIELDS = {"read_block_ms": "block_ms", "read_count": "batch"}
"""What the settings call differently."""


def make_config(optional: Mapping[str, Any], **settings: Any) -> ConsumerConfig:
    """The settings of a consumer; an optional one that is None keeps its default."""
    given = {_FIELDS.get(name, name): value for name, value in optional.items() if value is not None}
    if "result_ttl_ms" in given:
        ttl_ms = check_whole_number(given.pop("result_ttl_ms"), "result_ttl_ms", 1)
        given["result_ttl_secs"] = -(-ttl_ms // 1000)
    if "scheduler_tick_ms" in given:
        given["scheduler"] = SchedulerConfig(tick_interval_ms=given.pop("scheduler_tick_ms"))
    return ConsumerConfig(**settings, **given)
