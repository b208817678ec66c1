"""The page: one HTML text with style and plots inside, light or dark as the reader's system is. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from html import escape
from typing import Any

from chasqui_engine.pipeline.report.charts import Axis, Series, bar_chart, line_chart
from chasqui_engine.pipeline.report.style import STYLE

Column = tuple[str, Callable[[dict[str, Any]], str]]


def page(summary: dict[str, Any]) -> str:
    """The whole page."""
    queues = summary["queues"]
    window_s = summary["window_s"]
    moment = _moment if window_s % 60 == 0 else _exact_moment
    body = "".join(_queue(name, queue, window_s, moment) for name, queue in queues.items())
    if not queues:
        body = '<p class="empty">No events yet. Run some jobs, then run the pipeline again.</p>'
    spans = [window["window_start"] for queue in queues.values() for window in queue["windows"]]
    span = _span(min(spans), max(spans), moment) if spans else "nothing so far"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Chasqui report</title>'
        f"<style>{STYLE}</style></head><body><header><h1>Chasqui report</h1><p>{span}, in windows of "
        f"{_length(window_s)}</p>{_verdict(summary)}</header><main>{body}{_promises(summary['slos'])}</main>"
        "<footer>Latency: from ready to started. Handler: the time the handler took. When an immediate job with an id "
        "of the caller's own was added is not known, so its latency is not counted. Backlog counts jobs that have been "
        "heard of.</footer></body></html>"
    )


def _span(first: str, last: str, moment: Callable[[str], str]) -> str:
    """The day is said once, if it is one."""
    day = "" if first[:10] == last[:10] else f"{last[:10]} "
    return f"{first[:10]} {moment(first)[6:]} to {day}{moment(last)[6:]} UTC"


def _verdict(summary: dict[str, Any]) -> str:
    """Of all promises. Green is for those that were judged, every one."""
    slos, breaches, new = summary["slos"], summary["breaches"], summary["new_breaches"]
    if not slos:
        return '<p class="badge">no SLO was given</p>'
    if breaches:
        told = f", {new:,} of them new" if new else ""
        return f'<p class="badge bad">{breaches:,} SLO {"breach" if breaches == 1 else "breaches"}{told}</p>'
    unjudged = sum(not slo["judged"] for slo in slos)
    if unjudged:
        return f'<p class="badge warn">{unjudged:,} of {len(slos):,} SLOs could not be judged</p>'
    return '<p class="badge good">every SLO kept</p>'


def _promises(slos: Sequence[dict[str, Any]]) -> str:
    colours = {"kept": "good", "broken": "bad"}
    columns: list[Column] = [
        ("queue", lambda row: escape(row["queue"])),
        ("name", lambda row: escape(row["name"] or "whole queue")),
        ("metric", lambda row: escape(row["metric"])),
        ("promised", lambda row: _measure(row["limit"])),
        ("windows judged", lambda row: _count(row["judged"])),
        ("broken", lambda row: _count(row["broken"])),
        ("verdict", lambda row: f"<b class='{colours.get(row['verdict'], 'warn')}'>{row['verdict']}</b>"),
    ]
    return f"<section><div class='tables'>{_table('SLOs', slos, columns, wide=True)}</div></section>" if slos else ""


def _queue(name: str, queue: dict[str, Any], window_s: int, moment: Callable[[str], str]) -> str:
    plots = _plots(queue["windows"], window_s, moment)
    return (
        f"<section><h2>{escape(name)}</h2>{_tiles(queue)}<div class='plots'>{plots}</div>"
        f"<div class='tables'>{_tables(queue, moment)}</div></section>"
    )


def _axis(windows: Sequence[dict[str, Any]], window_s: int, moment: Callable[[str], str]) -> Axis:
    labels = [moment(window["window_start"]) for window in windows]
    if len({label[:5] for label in labels}) == 1:  # the day need not be said
        labels = [label[6:] for label in labels]
    starts = [int(datetime.fromisoformat(window["window_start"]).timestamp()) for window in windows]
    return Axis(starts, window_s, labels)


def _plots(windows: Sequence[dict[str, Any]], window_s: int, moment: Callable[[str], str]) -> str:
    axis = _axis(windows, window_s, moment)

    def values(column: str) -> list[float | None]:
        return [window[column] for window in windows]

    latency = [
        Series(label, f"c{n}", values(f"latency_{label}_ms")) for n, label in enumerate(("p50", "p95", "p99"), 1)
    ]
    handler = [
        Series(label, f"c{n}", values(f"handler_{label}_ms")) for n, label in enumerate(("p50", "p95", "p99"), 1)
    ]
    flow = [Series("completed", "good", values("completed")), Series("failed", "bad", values("failed"))]
    rates = [
        Series("failures", "bad", _percent(values("failure_rate"))),
        Series("retries", "warn", _percent(values("retry_rate"))),
        Series("deaths", "c2", _percent(values("dead_rate"))),
    ]
    jobs = [Series("arrived", "c1", values("arrived")), Series("departed", "good", values("departed"))]
    backlog = [Series("backlog", "c2", values("backlog"))]
    return (
        _figure("Finished attempts per window", bar_chart(axis, flow, "attempts"), flow)
        + _figure("Queue latency, ms", line_chart(axis, latency, "ms"), latency)
        + _figure("Handler time, ms", line_chart(axis, handler, "ms"), handler)
        + _figure("Failures, retries, deaths, % of attempts", line_chart(axis, rates, "%"), rates)
        + _figure("Jobs that came and went per window", line_chart(axis, jobs, "jobs"), jobs)
        + _figure("Backlog, jobs", line_chart(axis, backlog, "jobs"), [])
    )


def _tiles(queue: dict[str, Any]) -> str:
    total, latest = queue["totals"], queue["latest"]
    tiles = [
        ("completed", _count(total["completed"]), _change(latest, "throughput_per_s", "/s", better=1)),
        ("success", _rate(total["success_rate"]), _change(latest, "failure_rate", "", better=-1, percent=True)),
        ("dead", _count(total["dead"]), ""),
        ("latency p95", _ms(total["latency_p95_ms"]), _change(latest, "latency_p95_ms", " ms", better=-1)),
        ("handler p95", _ms(total["handler_p95_ms"]), _change(latest, "handler_p95_ms", " ms", better=-1)),
        ("backlog", _count(latest["backlog"]), ""),
    ]
    cells = "".join(
        f"<div class='tile'><span>{label}</span><strong>{value}</strong>{change}</div>"
        for label, value, change in tiles
    )
    return f"<div class='tiles'>{cells}</div>"


def _change(latest: dict[str, Any], column: str, unit: str, *, better: int, percent: bool = False) -> str:
    change = latest[f"{column}_change"]
    if not change:
        return "<em>as in the window before</em>" if change == 0 else ""
    kind = "good" if change * better > 0 else "bad"
    size = f"{abs(change) * 100:.1f} points of failures" if percent else f"{abs(change):,.3g}{unit}"
    return f"<em class='{kind}'>{'+' if change > 0 else '−'}{size} on the window before</em>"


def _tables(queue: dict[str, Any], moment: Callable[[str], str]) -> str:
    name: Column = ("name", lambda row: escape(row["name"]) or "<i>no name</i>")
    slowest = _table(
        "Slowest names",
        queue["slowest"],
        [
            name,
            ("p50", lambda row: _ms(row["handler_p50_ms"])),
            ("p95", lambda row: _ms(row["handler_p95_ms"])),
            ("p99", lambda row: _ms(row["handler_p99_ms"])),
            ("completed", lambda row: _count(row["completed"])),
        ],
    )
    failing = _table(
        "Most failing names",
        queue["most_failing"],
        [
            name,
            ("failures", lambda row: _rate(row["failure_rate"])),
            ("failed", lambda row: _count(row["failed"])),
            ("retried", lambda row: _count(row["retried"])),
            ("dead", lambda row: _count(row["dead"])),
        ],
    )
    broken = _table(
        f"SLO breaches ({queue['breaches_in_all']:,})",
        list(reversed(queue["breaches"])),
        [
            ("window", lambda row: moment(row["window_start"])),
            ("name", lambda row: escape(row["name"] or "whole queue")),
            ("metric", lambda row: escape(row["metric"])),
            ("promised", lambda row: _measure(row["limit"])),
            ("was", lambda row: f"<b class='bad'>{_measure(row['value'])}</b>{' new' if row['new'] else ''}"),
        ],
        wide=True,
    )
    return slowest + failing + (broken if queue["breaches"] else "")


def _table(title: str, rows: Sequence[dict[str, Any]], columns: Sequence[Column], *, wide: bool = False) -> str:
    head = "".join(f"<th>{label}</th>" for label, _ in columns)
    if not rows:
        return f"<div><h3>{title}</h3><p class='empty'>none</p></div>"
    body = "".join("<tr>" + "".join(f"<td>{show(row)}</td>" for _, show in columns) + "</tr>" for row in rows)
    kind = " class='wide'" if wide else ""
    return f"<div{kind}><h3>{title}</h3><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _figure(title: str, chart: str, series: Sequence[Series]) -> str:
    keys = "".join(f"<span><i style='background:var(--{one.colour})'></i>{one.label}</span>" for one in series)
    return f"<figure><figcaption><b>{title}</b>{keys}</figcaption>{chart}</figure>"


def _percent(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else value * 100 for value in values]


def _moment(text: str) -> str:
    return f"{text[5:10]} {text[11:16]}"


def _exact_moment(text: str) -> str:
    return f"{text[5:10]} {text[11:19]}"


def _length(seconds: int) -> str:
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _count(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _measure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.1f} %"


def _ms(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value / 1000:,.2f} s" if value >= 10_000 else f"{value:,.0f} ms" if value >= 10 else f"{value:.2g} ms"
