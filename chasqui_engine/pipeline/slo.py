"""Service level objectives, from a small YAML file. Pure.

slos:
  - queue: emails              # which queue
    name: send                 # which jobs; left out: the queue as a whole
    latency_p95_ms: 2000       # at most
    handler_p99_ms: 500        # at most
    success_rate: 0.99         # at least
    backlog: 1000              # at most
    throughput_per_s: 5        # at least, in every window that has ended
    min_finished: 20           # shares and percentiles of fewer finished attempts are not judged
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.validation import check_queue_name

_MOST_CHARS = 1024 * 1024
_DEEPEST = 10
_SHARES = ("success_rate", "failure_rate", "dead_rate", "retry_rate")
_PERCENTILES = tuple(f"{what}_{label}_ms" for what in ("latency", "handler") for label in ("p50", "p95", "p99"))
LEAST = ("success_rate", "throughput_per_s")
"""Metrics with a lower limit; the others have an upper one."""
NEEDS_FINISHED = (*_SHARES, *_PERCENTILES)
"""Metrics that mean nothing where little was finished. A queue that does nothing breaches the others."""
NEEDS_END = ("throughput_per_s",)
"""Metrics of windows that have ended only."""
METRICS = (*NEEDS_FINISHED, "backlog", "throughput_per_s")


@dataclass(frozen=True, slots=True)
class Slo:
    """The objectives for one queue, or for one of its names."""

    queue: str
    name: str | None
    limits: dict[str, float]
    min_finished: int = 1

    @property
    def waits(self) -> bool:
        """Whether a window has to end before all of it can be judged."""
        return any(metric in self.limits for metric in NEEDS_END)

    def to_dict(self) -> dict[str, Any]:
        """The form in a manifest."""
        return {"queue": self.queue, "name": self.name, "limits": self.limits, "min_finished": self.min_finished}


def parse(text: str) -> list[Slo]:
    """The objectives in a YAML text."""
    import yaml

    if len(text) > _MOST_CHARS:
        raise ConfigError(f"the SLO file has {len(text)} characters; it may have {_MOST_CHARS}")
    try:
        _check_shape(yaml.parse(text, Loader=yaml.SafeLoader))
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as err:
        raise ConfigError(f"the SLO file is not YAML: {' '.join(str(err).split())}") from err
    if not isinstance(content, dict) or not isinstance(content.get("slos"), list):
        raise ConfigError("the SLO file needs a list under 'slos'")
    return [_slo(number, item) for number, item in enumerate(content["slos"], 1)]


def _check_shape(events: Iterable[Any]) -> None:
    """Rejects aliases, by which a few bytes become gigabytes, and deep nesting, before anything is built."""
    from yaml import AliasEvent, CollectionEndEvent, CollectionStartEvent

    depth = 0
    for event in events:
        if isinstance(event, AliasEvent):
            raise ConfigError(f"the SLO file has an alias, *{event.anchor}: write its value instead")
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > _DEEPEST:
            raise ConfigError(f"the SLO file is nested deeper than {_DEEPEST} levels; objectives need three")


def _slo(number: int, item: Any) -> Slo:
    if not isinstance(item, dict) or not isinstance(item.get("queue"), str):
        raise ConfigError(f"SLO {number} needs a queue, such as 'queue: emails', got {item!r}")
    which = f"SLO {number} (queue {item['queue']!r})"
    check_queue_name(item["queue"], f"{which}: queue")
    name, least = item.get("name"), item.get("min_finished", 1)
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"{which}: name must be text, got {name!r}; put it in quotes")
    if type(least) is not int or least < 1:
        raise ConfigError(f"{which}: min_finished must be a whole number from 1, got {least!r}")
    given = {key: value for key, value in item.items() if key not in ("queue", "name", "min_finished")}
    if not given:
        raise ConfigError(f"{which} has no objective; give it one of {', '.join(METRICS)}")
    return Slo(item["queue"], name, {key: _limit(which, key, value) for key, value in given.items()}, least)


def _limit(which: str, metric: Any, value: Any) -> float:
    if metric not in METRICS:
        raise ConfigError(f"{which} has no metric {metric!r}; it may have {', '.join(METRICS)}")
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ConfigError(f"{which}: {metric} must be a number from 0, got {value!r}")
    if metric in _SHARES and value > 1:
        raise ConfigError(f"{which}: {metric} is a share, from 0 to 1, got {value!r}; 99 % is 0.99")
    return float(value)
