"""What was promised, from a small YAML file, and where it was not kept.

slos:
  - queue: emails              # which queue
    name: send                 # which jobs; left out: the queue as a whole
    latency_p95_ms: 2000       # at most
    handler_p99_ms: 500        # at most
    success_rate: 0.99         # at least
    min_finished: 20           # windows with fewer finished attempts are not judged
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.errors import ConfigError

_MOST = (
    *(f"{what}_{label}_ms" for what in ("latency", "handler") for label in ("p50", "p95", "p99")),
    "failure_rate",
    "dead_rate",
    "retry_rate",
    "backlog",
)
_LEAST = ("success_rate", "throughput_per_s")
_BREACH = "struct<metric:string,limit:double,value:double>"


@dataclass(frozen=True, slots=True)
class Slo:
    """The promises for one queue, or for one of its names."""

    queue: str
    name: str | None
    limits: dict[str, float]
    min_finished: int = 1

    def to_dict(self) -> dict[str, Any]:
        """As a manifest keeps it."""
        return {"queue": self.queue, "name": self.name, "limits": self.limits, "min_finished": self.min_finished}


def parse(text: str) -> list[Slo]:
    """The promises in a YAML text."""
    import yaml

    try:
        content = yaml.safe_load(text) or {}
    except yaml.YAMLError as err:
        raise ConfigError(f"the SLO file is not YAML: {err}") from err
    if not isinstance(content, dict) or not isinstance(content.get("slos"), list):
        raise ConfigError("the SLO file needs a list under 'slos'")
    return [_slo(item) for item in content["slos"]]


def _slo(item: Any) -> Slo:
    if not isinstance(item, dict) or not isinstance(item.get("queue"), str):
        raise ConfigError(f"an SLO needs a queue, got {item!r}")
    limits = {key: value for key, value in item.items() if key not in ("queue", "name", "min_finished")}
    for key, value in limits.items():
        if key not in _MOST + _LEAST:
            raise ConfigError(f"an SLO has no metric {key!r}; it has {', '.join(_MOST + _LEAST)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"SLO {key} must be a number, got {value!r}")
    numbers = {key: float(value) for key, value in limits.items()}
    return Slo(item["queue"], item.get("name"), numbers, int(item.get("min_finished", 1)))


def breaches(frame: DataFrame, slos: list[Slo]) -> DataFrame:
    """Adds `breaches`: the promises that a window did not keep."""
    found = [_breach(slo, metric, limit) for slo in slos for metric, limit in slo.limits.items()]
    if not found:
        return frame.withColumn("breaches", F.from_json(F.lit("[]"), f"array<{_BREACH}>"))
    return frame.withColumn("breaches", F.filter(F.array(*found), lambda breach: breach.isNotNull()))


def _breach(slo: Slo, metric: str, limit: float) -> Column:
    scope = F.col("scope") == ("queue" if slo.name is None else "name")
    applies = scope & (F.col("queue") == slo.queue) & (F.col("completed") + F.col("failed") >= slo.min_finished)
    if slo.name is not None:
        applies = applies & (F.col("name") == slo.name)
    value = F.col(metric).cast("double")
    broken = value > limit if metric in _MOST else value < limit
    told = F.struct(F.lit(metric).alias("metric"), F.lit(limit).alias("limit"), value.alias("value"))
    return F.when(applies & broken, told.cast(_BREACH))
