"""The summary: the contents of gold, as plain data for the page and for programs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline import aggregates, slo_evaluation
from chasqui_engine.pipeline.report.days import list_days, list_names_by_day
from chasqui_engine.pipeline.slo import Slo
from chasqui_engine.pipeline.windows import iso

_TOP = 8
_MOST_WINDOWS = 400
"""At most this many windows of a queue on the page, the latest ones."""
_MOST_BREACHES = 50
NO_EVENTS = "no events"
_TIMES = ("window_start", "window_end")
_INTERNAL = ("breaches", "judged", "scope", "seconds")


def summarize(
    metrics: DataFrame, windows: DataFrame, window_s: int, slos: list[Slo], *, reported: int = 0
) -> dict[str, Any]:
    """Everything that the page shows. `reported`: the version of gold in the last report; later breaches are new."""
    frame = metrics.withColumns({name: F.unix_seconds(name) for name in _TIMES})
    rows = frame.orderBy("queue", "window_start", "scope", "name").collect()
    totals = {row.queue: row for row in aggregates.sum_up(windows, window_s, "queue").collect()}
    names = aggregates.sum_up(windows, window_s, "queue", "name").collect()
    queues = {
        queue: _summarize_queue(
            [row for row in rows if row.queue == queue],
            totals[queue],
            [row for row in names if row.queue == queue],
            reported,
        )
        for queue in sorted(totals)
    }
    by_day = list_days(windows)
    shown = {queue: [row["name"] for row in found["names"]] for queue, found in queues.items()}
    names_by_day = list_names_by_day(windows, by_day, shown)
    queues = {
        queue: {**found, "days": by_day[queue], "names_by_day": names_by_day[queue]} for queue, found in queues.items()
    }
    return {
        "window_s": window_s,
        "queues": queues,
        "breaches": sum(queue["breaches_in_all"] for queue in queues.values()),
        "new_breaches": sum(queue["new_breaches"] for queue in queues.values()),
        "slos": _list_verdicts(rows, slos),
    }


def summarize_nothing(window_s: int) -> dict[str, Any]:
    """The summary while there are no events."""
    return {"window_s": window_s, "queues": {}, "breaches": 0, "new_breaches": 0, "slos": []}


def without_news(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary that was reported before: none of its breaches is new."""
    queues = {
        name: {**queue, "breaches": [{**breach, "new": False} for breach in queue["breaches"]], "new_breaches": 0}
        for name, queue in summary["queues"].items()
    }
    return {**summary, "queues": queues, "new_breaches": 0}


def _summarize_queue(rows: list[Row], total: Row, names: list[Row], reported: int) -> dict[str, Any]:
    whole = [_plain(row) for row in rows if row.scope == "queue"]
    breaches = [
        {
            "name": row.name if row.scope == "name" else None,
            "window_start": iso(row.window_start),
            **{key: breach[key] for key in ("metric", "limit", "value")},
            "new": breach.since > reported,
        }
        for row in rows
        for breach in row.breaches
    ]
    by_name = [_plain(row) for row in names]
    slow = sorted((n for n in by_name if n["handler_p95_ms"] is not None), key=lambda n: -n["handler_p95_ms"])
    failing = sorted((n for n in by_name if n["failed"]), key=lambda n: (-n["failure_rate"], -n["failed"]))
    return {
        "totals": _plain(total),
        "windows": whole[-_MOST_WINDOWS:],
        "latest": whole[-1] if whole else None,
        "names": sorted(by_name, key=lambda n: -(n["completed"] + n["failed"]))[: 4 * _TOP],
        "slowest": slow[:_TOP],
        "most_failing": failing[:_TOP],
        "breaches": breaches[-_MOST_BREACHES:],
        "breaches_in_all": len(breaches),
        "new_breaches": sum(breach["new"] for breach in breaches),
    }


def _list_verdicts(rows: list[Row], slos: list[Slo]) -> list[dict[str, Any]]:
    """For each objective, in how many windows it was judged and broken. One that was never judged was not kept."""
    judged = Counter(number for row in rows for number in row.judged)
    broken = Counter(breach.objective for row in rows for breach in row.breaches)
    seen = {(row.queue, row.name if row.scope == "name" else None) for row in rows}
    verdicts = []
    for number, (slo, metric, limit) in enumerate(slo_evaluation.list_objectives(slos)):
        verdict = "broken" if broken[number] else "kept" if judged[number] else "not judged"
        verdicts.append(
            {
                "queue": slo.queue,
                "name": slo.name,
                "metric": metric,
                "limit": limit,
                "judged": judged[number],
                "broken": broken[number],
                "verdict": verdict if (slo.queue, slo.name) in seen else NO_EVENTS,
            }
        )
    return verdicts


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON."""
    values = {key: value for key, value in row.asDict().items() if key not in _INTERNAL}
    return {key: iso(value) if key in _TIMES else value for key, value in values.items()}
