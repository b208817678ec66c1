"""The report's page and its plots, without Spark."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from chasqui_engine.spark.pipeline.charts import Series, bar_chart, line_chart, nice_top
from chasqui_engine.spark.pipeline.page import page

VOID = {"meta", "br", "line", "path", "rect", "circle"}


class Balanced(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def window(start: str, **values: Any) -> dict[str, Any]:
    columns = ["arrived", "departed", "completed", "failed", "retried", "dead", "backlog"]
    row: dict[str, Any] = {"window_start": start, "name": "", **dict.fromkeys(columns, 3)}
    for what in ("latency", "handler"):
        row |= {f"{what}_{label}_ms": 5.0 for label in ("p50", "p95", "p99")}
    rates = ("success_rate", "failure_rate", "retry_rate", "dead_rate", "throughput_per_s")
    row |= dict.fromkeys(rates, 0.5)
    for column in ("throughput_per_s", "failure_rate", "latency_p95_ms", "handler_p95_ms"):
        row[f"{column}_change"] = 0.25
    return {**row, **values}


def summary(name: str = "emails", **changes: Any) -> dict[str, Any]:
    windows = [window("2026-11-16T09:00:00Z"), window("2026-11-16T09:05:00Z", latency_p95_ms=None)]
    breach = {
        "metric": "success_rate",
        "limit": 0.99,
        "value": 0.5,
        "name": None,
        "window_start": "2026-11-16T09:00:00Z",
    }
    queue = {
        "totals": windows[0],
        "windows": windows,
        "latest": windows[1],
        "slowest": [{**windows[0], "name": "<b>send</b>"}],
        "most_failing": [],
        "breaches": [breach],
        "breaches_in_all": 1,
        **changes,
    }
    return {"window_s": 300, "queues": {name: queue}, "breaches": queue["breaches_in_all"], "slos": 1}


def parsed(html: str) -> str:
    reader = Balanced()
    reader.feed(html)
    assert not reader.open
    return " ".join(reader.text)


def test_the_page_is_whole_and_stands_alone() -> None:
    html = page(summary())
    text = parsed(html)
    for word in ("Chasqui report", "emails", "1 SLO breach", "Queue latency", "p99", "windows of 5 min", "whole queue"):
        assert word in text
    for outside in ("http://", "https://", "<script", "<link", "url("):
        assert outside not in html


def test_names_cannot_put_html_into_the_page() -> None:
    html = page(summary(name="<img src=x onerror=alert(1)>"))
    assert "<img" not in html
    assert "<b>send</b>" in parsed(html)


def test_an_empty_page_says_so() -> None:
    empty: dict[str, Any] = {"window_s": 300, "queues": {}, "breaches": 0}
    assert "No events yet" in parsed(page({**empty, "slos": 0}))
    assert "no SLO was given" in page({**empty, "slos": 0})
    assert "every SLO kept" in page({**empty, "slos": 2})


def test_times_are_as_exact_as_the_windows() -> None:
    windows = [window("2026-11-16T09:00:58Z"), window("2026-11-16T09:01:00Z")]
    short = {**summary(windows=windows), "window_s": 2}
    text = parsed(page(short))
    assert "2026-11-16 09:00:58 to 09:01:00 UTC, in windows of 2 s" in text
    days = summary(windows=[window("2026-11-16T09:00:00Z"), window("2026-11-17T10:00:00Z")])
    text = parsed(page(days))
    assert "2026-11-16 09:00 to 2026-11-17 10:00 UTC" in text
    assert "11-17 10:00" in text


def test_gaps_break_the_line() -> None:
    chart = line_chart(["a", "b", "c", "d"], [Series("s", "c1", [1.0, None, 2.0, 3.0])], "ms")
    assert chart.count('class="line"') == 2
    assert chart.count("<circle") == 3


def test_bars_stand_on_each_other() -> None:
    chart = bar_chart(["a"], [Series("good", "good", [2]), Series("bad", "bad", [1])], "jobs")
    assert chart.count("<rect") == 2


@pytest.mark.parametrize(("most", "top"), [(0, 1), (0.7, 0.8), (1, 1), (1.2, 1.2), (99, 100), (101, 120), (7300, 8000)])
def test_the_axis_ends_at_a_round_number(most: float, top: float) -> None:
    assert nice_top(most) == pytest.approx(top)


def test_charts_of_nothing_are_charts() -> None:
    assert line_chart([], [Series("s", "c1", [])], "ms").startswith("<svg")
    assert bar_chart([], [], "ms").startswith("<svg")
