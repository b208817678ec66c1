"""The page: one HTML text with its style and charts inside, light or dark as the reader's system is. Pure.

The layout is in `page.html`, `chart.svg` and `report.css`; this module adds what they need beyond the summary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from chasqui_engine.pipeline.report import formatting
from chasqui_engine.pipeline.report.charts import Axis, Chart, Series, bar_chart, line_chart

_PACKAGE = "chasqui_engine.pipeline.report"
_PERCENTILES = ("p50", "p95", "p99")


class Figure(NamedTuple):
    """A chart with its title and what its colours mean."""

    title: str
    chart: Chart
    keys: Sequence[Series]


class Badge(NamedTuple):
    """A verdict in a few words."""

    kind: str
    text: str


class Tile(NamedTuple):
    """A headline number and its change."""

    label: str
    value: str
    change: Badge | None = None


def render_page(summary: dict[str, Any]) -> str:
    """The whole page."""
    window_s = summary["window_s"]
    moment = _moment if window_s % 60 == 0 else _exact_moment
    starts = [window["window_start"] for queue in summary["queues"].values() for window in queue["windows"]]
    return (
        _environment()
        .get_template("page.html")
        .render(
            css=files(_PACKAGE).joinpath("report.css").read_text(),
            span=f"{_span(min(starts), max(starts), moment)}" if starts else "no events so far",
            window=formatting.window_length(window_s),
            badge=_badge(summary),
            queues={
                name: {
                    **queue,
                    "tiles": _tiles(queue),
                    "figures": _figures(queue["windows"], window_s, moment),
                    "short_days": [day["day"][5:] for day in queue["days"]],
                }
                for name, queue in summary["queues"].items()
            },
            slos=summary["slos"],
            verdict_kinds={"kept": "good", "broken": "bad"},
            moment=moment,
            anchor=anchor,
        )
    )


def anchor(queue: str) -> str:
    """Where a queue is on the page. The same in every report, so that a link to it can be kept."""
    return f"queue-{quote(queue, safe='')}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(_PACKAGE, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("count", "share", "duration", "measure"):
        environment.filters[name] = getattr(formatting, name)
    environment.filters["px"] = lambda value: f"{value:.1f}"
    return environment


def _span(first: str, last: str, moment: Callable[[str], str]) -> str:
    """From when to when; the day once, if it is one."""
    day = "" if first[:10] == last[:10] else f"{last[:10]} "
    return f"{first[:10]} {moment(first)[6:]} to {day}{moment(last)[6:]} UTC"


def _badge(summary: dict[str, Any]) -> Badge:
    """The verdict on all SLOs. Green only if every one of them was judged."""
    slos, breaches, new = summary["slos"], summary["breaches"], summary["new_breaches"]
    if not slos:
        return Badge("", "no SLO was given")
    if breaches:
        of_which = f", {new:,} of them new" if new else ""
        return Badge("bad", f"{breaches:,} SLO {'breach' if breaches == 1 else 'breaches'}{of_which}")
    unjudged = sum(not slo["judged"] for slo in slos)
    if unjudged:
        return Badge("warn", f"{unjudged:,} of {len(slos):,} SLOs could not be judged")
    return Badge("good", "every SLO kept")


def _tiles(queue: dict[str, Any]) -> list[Tile]:
    total, latest = queue["totals"], queue["latest"]
    latency, handler = (_change(latest, f"{what}_p95_ms", formatting.duration) for what in ("latency", "handler"))
    return [
        Tile("completed", formatting.count(total["completed"]), _change(latest, "throughput_per_s", _per_s, better=1)),
        Tile("success", formatting.share(total["success_rate"]), _change(latest, "failure_rate", _points)),
        Tile("dead", formatting.count(total["dead"])),
        Tile("latency p95", formatting.duration(total["latency_p95_ms"]), latency),
        Tile("handler p95", formatting.duration(total["handler_p95_ms"]), handler),
        Tile("backlog", formatting.count(latest["backlog"])),
    ]


def _change(latest: dict[str, Any], column: str, show: Callable[[float], str], *, better: int = -1) -> Badge | None:
    change = latest[f"{column}_change"]
    if change is None:
        return None
    if change == 0:
        return Badge("", "as in the window before")
    kind = "good" if change * better > 0 else "bad"
    return Badge(kind, f"{formatting.add_sign(change, show(abs(change)))} on the window before")


def _per_s(value: float) -> str:
    return f"{formatting.significant(value)}/s"


def _points(value: float) -> str:
    return f"{formatting.significant(value * 100)} points of failures"


def _figures(windows: Sequence[dict[str, Any]], window_s: int, moment: Callable[[str], str]) -> list[Figure]:
    axis = _axis(windows, window_s, moment)

    def series(label: str, colour: str, column: str) -> Series:
        return Series(label, colour, [window[column] for window in windows])

    def percentiles(what: str) -> list[Series]:
        return [series(label, f"c{n}", f"{what}_{label}_ms") for n, label in enumerate(_PERCENTILES, 1)]

    flow = [series("completed", "good", "completed"), series("failed", "bad", "failed")]
    rates = [
        series("failures", "bad", "failure_rate"),
        series("retries", "warn", "retry_rate"),
        series("deaths", "c2", "dead_rate"),
    ]
    jobs = [series("arrived", "c1", "arrived"), series("departed", "good", "departed")]
    latency, handler = percentiles("latency"), percentiles("handler")
    return [
        Figure("Attempts finished per window", bar_chart(axis, flow), flow),
        Figure("Queue latency", line_chart(axis, latency, formatting.duration), latency),
        Figure("Handler time", line_chart(axis, handler, formatting.duration), handler),
        Figure("Share of attempts", line_chart(axis, rates, formatting.share), rates),
        Figure("Jobs per window", line_chart(axis, jobs), jobs),
        Figure("Backlog, jobs", line_chart(axis, [series("backlog", "c2", "backlog")]), []),
    ]


def _axis(windows: Sequence[dict[str, Any]], window_s: int, moment: Callable[[str], str]) -> Axis:
    labels = [moment(window["window_start"]) for window in windows]
    if len({label[:5] for label in labels}) == 1:  # all on one day
        labels = [label[6:] for label in labels]
    starts = [int(datetime.fromisoformat(window["window_start"]).timestamp()) for window in windows]
    return Axis(starts, window_s, labels)


def _moment(text: str) -> str:
    return f"{text[5:10]} {text[11:16]}"


def _exact_moment(text: str) -> str:
    return f"{text[5:10]} {text[11:19]}"
