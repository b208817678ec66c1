"""The report: what gold answers, as a summary in JSON and as one page that stands alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from chasqui_engine.pipeline import aggregates, gold, slo_evaluation
from chasqui_engine.pipeline.bronze import Say
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.report.html import page
from chasqui_engine.pipeline.slo import Slo
from chasqui_engine.pipeline.windows import iso

_TOP = 8
_MOST_WINDOWS = 400
"""Windows of a queue that the page draws, the latest ones."""
_MOST_BREACHES = 50
NEVER_HEARD = "never heard of"
_TIMES = ("window_start", "window_end")
_INNER = ("breaches", "judged", "scope", "seconds")


def update(spark: SparkSession, store: Files, config: PipelineConfig, say: Say) -> dict[str, Any]:
    """Writes page and summary; changes nothing when gold did not change. What is returned calls only those breaches
    new that no report told before."""
    held = gold.manifest(store)
    before = store.read_json("report", "summary.json")
    if before is not None and before["gold"] == held["version"]:
        return _nothing_new(before)
    if not held["version"]:
        found: dict[str, Any] = {
            "window_s": config.window_s,
            "queues": {},
            "breaches": 0,
            "new_breaches": 0,
            "slos": [],
        }
    else:
        slos = [Slo(**slo) for slo in held["slos"]]
        metrics, windows = gold.read_metrics(spark, store), gold.read_windows(spark, store)
        found = summary(metrics, windows, held["window_s"], slos, told=before["gold"] if before else 0)
    found["gold"] = held["version"]
    store.write_text(page(found), "report", "index.html")
    store.write_json(found, "report", "summary.json")
    say(f"report  {sum(len(queue['windows']) for queue in found['queues'].values())} windows")
    for slo in found["slos"]:
        if slo["verdict"] == NEVER_HEARD:
            which = f"{slo['queue']!r}" + (f", name {slo['name']!r}" if slo["name"] else "")
            say(f"report  SLO for queue {which}: nothing was ever heard of it")
    return found


def _nothing_new(before: dict[str, Any]) -> dict[str, Any]:
    queues = {
        name: {
            **queue,
            "breaches": [{**breach, "new": False} for breach in queue["breaches"]],
            "new_breaches": 0,
        }
        for name, queue in before["queues"].items()
    }
    return {**before, "queues": queues, "new_breaches": 0}


def summary(metrics: DataFrame, windows: DataFrame, window_s: int, slos: list[Slo], *, told: int = 0) -> dict[str, Any]:
    """Everything the page shows. Breaches are new that are in gold since after the version `told`."""
    frame = metrics.withColumns({name: F.unix_seconds(name) for name in _TIMES})
    rows = frame.orderBy("queue", "window_start", "scope", "name").collect()
    totals = {row.queue: row for row in aggregates.totals(windows, window_s, "queue").collect()}
    names = aggregates.totals(windows, window_s, "queue", "name").collect()
    queues = {
        queue: _queue(
            [row for row in rows if row.queue == queue],
            totals[queue],
            [row for row in names if row.queue == queue],
            told,
        )
        for queue in sorted(totals)
    }
    return {
        "window_s": window_s,
        "queues": queues,
        "breaches": sum(queue["breaches_in_all"] for queue in queues.values()),
        "new_breaches": sum(queue["new_breaches"] for queue in queues.values()),
        "slos": _verdicts(rows, slos),
    }


def _queue(rows: list[Row], total: Row, names: list[Row], told: int) -> dict[str, Any]:
    whole = [_plain(row) for row in rows if row.scope == "queue"]
    broken = [
        {
            "name": row.name if row.scope == "name" else None,
            "window_start": iso(row.window_start),
            **{key: breach[key] for key in ("metric", "limit", "value")},
            "new": breach.since > told,
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
        "breaches": broken[-_MOST_BREACHES:],
        "breaches_in_all": len(broken),
        "new_breaches": sum(breach["new"] for breach in broken),
    }


def _verdicts(rows: list[Row], slos: list[Slo]) -> list[dict[str, Any]]:
    """Of each promise, in how many windows it was judged and broken. One that was never judged was not kept either."""
    judged = Counter(number for row in rows for number in row.judged)
    broken = Counter(breach.promise for row in rows for breach in row.breaches)
    heard = {(row.queue, row.name if row.scope == "name" else None) for row in rows}
    found = []
    for number, (slo, metric, limit) in enumerate(slo_evaluation.promises(slos)):
        verdict = "broken" if broken[number] else "kept" if judged[number] else "not judged"
        found.append(
            {
                "queue": slo.queue,
                "name": slo.name,
                "metric": metric,
                "limit": limit,
                "judged": judged[number],
                "broken": broken[number],
                "verdict": verdict if (slo.queue, slo.name) in heard else NEVER_HEARD,
            }
        )
    return found


def _plain(row: Row) -> dict[str, Any]:
    """A row as JSON holds it."""
    found = {key: value for key, value in row.asDict().items() if key not in _INNER}
    return {key: iso(value) if key in _TIMES else value for key, value in found.items()}
