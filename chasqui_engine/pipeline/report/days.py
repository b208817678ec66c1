"""What each day had, of each queue and of each of its names: for the tables over days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline import aggregates

_MOST_DAYS = 14
"""On the page: the latest ones with events, of each queue."""
_OF_A_DAY = ("completed", "failed", "dead", "success_rate", "latency_p95_ms", "handler_p95_ms")
_OF_A_NAME = ("completed", "failed", "dead", "handler_p95_ms")


def list_days(windows: DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The latest days of each queue, the first one first."""
    days: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in aggregates.sum_up_days(windows, "queue", "day").orderBy("queue", "day").collect():
        days[row.queue].append({"day": row.day, **_pick(row, _OF_A_DAY)})
    return {queue: found[-_MOST_DAYS:] for queue, found in days.items()}


def list_names_by_day(
    windows: DataFrame, days: Mapping[str, list[dict[str, Any]]], names: Mapping[str, Iterable[str]]
) -> dict[str, list[dict[str, Any]]]:
    """The given names of each queue, each with one cell for each of the queue's days; None where it had no events."""
    first = min((found[0]["day"] for found in days.values()), default="")
    wanted = sorted({name for of_queue in names.values() for name in of_queue})
    frame = windows.where((F.col("day") >= first) & F.col("name").isin(*wanted))
    cells = {
        (row.queue, row.name, row.day): _pick(row, _OF_A_NAME)
        for row in aggregates.sum_up_days(frame, "queue", "name", "day").collect()
    }
    return {
        queue: [{"name": name, "days": [cells.get((queue, name, day["day"])) for day in days[queue]]} for name in shown]
        for queue, shown in names.items()
    }


def _pick(row: Row, columns: Iterable[str]) -> dict[str, Any]:
    return {column: row[column] for column in columns}
