"""The report's page and its plots, without Spark."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest

from chasqui_engine.pipeline.report.charts import Axis, Series, bar_chart, line_chart, nice_top
from chasqui_engine.pipeline.report.formatting import duration
from chasqui_engine.pipeline.report.html import render_page

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


def day(date: str, **values: Any) -> dict[str, Any]:
    counts = {"completed": 7, "failed": 0, "dead": 0, "success_rate": 0.975}
    return {"day": date, **counts, "latency_p95_ms": None, "handler_p95_ms": 12.5, **values}


def summary(name: str = "emails", **changes: Any) -> dict[str, Any]:
    windows = [window("2026-11-16T09:00:00Z"), window("2026-11-16T09:05:00Z", latency_p95_ms=None)]
    breach = {
        "metric": "success_rate",
        "limit": 0.99,
        "value": 0.5,
        "name": None,
        "window_start": "2026-11-16T09:00:00Z",
        "new": True,
    }
    queue = {
        "totals": windows[0],
        "windows": windows,
        "latest": windows[1],
        "slowest": [{**windows[0], "name": "<b>send</b>"}],
        "most_failing": [],
        "days": [day("2026-11-15"), day("2026-11-16", failed=1, latency_p95_ms=2990.4)],
        "names_by_day": [{"name": "<b>send</b>", "days": [None, day("2026-11-16", completed=1234, failed=5)]}],
        "breaches": [breach],
        "breaches_in_all": 1,
        **changes,
    }
    return {"window_s": 300, "queues": {name: queue}, "breaches": 1, "new_breaches": 1, "slos": [promise("broken", 2)]}


def promise(verdict: str, judged: int) -> dict[str, Any]:
    about = {"queue": "emails", "name": None, "metric": "success_rate", "limit": 0.99}
    return {**about, "verdict": verdict, "judged": judged, "broken": int(verdict == "broken")}


def axis(*starts: int) -> Axis:
    return Axis(starts, 10, [f"at {start}" for start in starts])


def parsed(html: str) -> str:
    reader = Balanced()
    reader.feed(html)
    assert not reader.open
    return " ".join(reader.text)


def test_the_page_is_whole_and_stands_alone() -> None:
    html = render_page(summary())
    text = parsed(html)
    for word in ("Chasqui report", "emails", "1 SLO breach", "Queue latency", "p99", "windows of 5 min", "whole queue"):
        assert word in text
    for outside in ("http://", "https://", "<script", "<link", "url("):
        assert outside not in html


def test_numbers_are_written_as_people_write_them() -> None:
    latest = window("2026-11-16T09:05:00Z", latency_p95_ms_change=2990.4, throughput_per_s_change=0.0004)
    text = parsed(render_page(summary(latest=latest)))
    assert "+2.99 s on the window before" in text
    assert "+0.0004/s on the window before" in text
    assert "e+0" not in text
    assert "99 %" in text, "what was promised"
    assert "50 %" in text, "what was measured"


def test_every_wide_table_scrolls_by_itself() -> None:
    html = render_page(summary())
    assert html.count("<table") == html.count('class="scroll" role="region"') > 0
    assert 'content="width=device-width' in html


def test_several_queues_are_linked_from_the_top() -> None:
    both = summary()
    both["queues"] = {"emails": both["queues"]["emails"], "a b": both["queues"]["emails"]}
    html = render_page(both)
    assert '<a href="#queue-a%20b">a b</a>' in html
    assert '<section id="queue-a%20b">' in html, "in every report, so that a link to it can be kept"
    assert html.count('href="#queue-emails"') == 2, "above, and in the table of queues"
    alone = render_page(summary())
    assert "<nav>" not in alone
    assert 'id="queues"' not in alone


def test_a_queue_and_its_names_are_shown_day_by_day() -> None:
    html = render_page(summary())
    text = parsed(html)
    assert text.index("2026-11-16") < text.index("2026-11-15"), "the latest first"
    for words in ("Day by day", "2.99 s", "97.5 %", "Names day by day", "1,234", "12.5 ms"):
        assert words in text
    assert '<b class="bad">5</b>' in html
    one_day = render_page(summary(days=[day("2026-11-16")]))
    assert "Names day by day" not in parsed(one_day), "the tables of names say it already"


def test_names_cannot_put_html_into_the_page() -> None:
    html = render_page(summary(name="<img src=x onerror=alert(1)>"))
    assert "<img" not in html
    assert "<b>send</b>" in parsed(html)


def test_an_empty_page_says_so() -> None:
    empty: dict[str, Any] = {"window_s": 300, "queues": {}, "breaches": 0, "new_breaches": 0, "slos": []}
    assert "No events yet" in parsed(render_page(empty))
    assert "no SLO was given" in render_page(empty)


def test_green_is_for_promises_that_were_judged() -> None:
    quiet = {**summary(breaches=[], breaches_in_all=0), "breaches": 0, "new_breaches": 0}
    kept = render_page({**quiet, "slos": [promise("kept", 3)]})
    assert 'class="badge good">every SLO kept<' in kept
    unheard = render_page({**quiet, "slos": [promise("kept", 3), promise("no events", 0)]})
    assert "badge good" not in unheard
    text = parsed(unheard)
    assert "1 of 2 SLOs could not be judged" in text
    assert "no events" in text
    assert "1 SLO breach, 1 of them new" in parsed(render_page(summary()))


def test_times_are_as_exact_as_the_windows() -> None:
    windows = [window("2026-11-16T09:00:58Z"), window("2026-11-16T09:01:00Z")]
    short = {**summary(windows=windows), "window_s": 2}
    text = parsed(render_page(short))
    assert "2026-11-16 09:00:58 to 09:01:00 UTC, in windows of 2 s" in text
    days = summary(windows=[window("2026-11-16T09:00:00Z"), window("2026-11-17T10:00:00Z")])
    text = parsed(render_page(days))
    assert "2026-11-16 09:00 to 2026-11-17 10:00 UTC" in text
    assert "11-17 10:00" in text


def test_gaps_break_the_line() -> None:
    chart = line_chart(axis(0, 10, 20, 30), [Series("s", "c1", [1.0, None, 2.0, 3.0])])
    assert len(chart.lines) == 2
    assert len(chart.dots) == 3


def test_windows_are_drawn_where_they_are_in_time() -> None:
    chart = line_chart(axis(0, 10, 90), [Series("s", "c1", [1.0, 1.0, 1.0])])
    first, second, last = (dot.x for dot in chart.dots)
    assert second - first == pytest.approx((last - first) / 9, abs=0.1)
    assert len(chart.lines) == 2, "there were no events in between"


def test_a_lone_window_among_many_can_be_seen() -> None:
    many = line_chart(axis(*range(0, 2000, 20)), [Series("s", "c1", [1.0] * 100)])
    assert not many.dots
    assert [line.path.endswith(" h0.01") for line in many.lines] == [True] * 100
    thin = bar_chart(axis(0, 10, 1_000_000), [Series("s", "c1", [1, 1, 1])])
    assert {bar.width for bar in thin.bars} == {1.0}


def test_bars_are_stacked() -> None:
    low, high = bar_chart(axis(0), [Series("good", "good", [2]), Series("bad", "bad", [1])]).bars
    assert high.y + high.height == pytest.approx(low.y)


def test_a_point_is_titled_with_its_value_as_people_write_it() -> None:
    (dot,) = line_chart(axis(0), [Series("p95", "c1", [2990.0])], duration).dots
    assert dot.title == "at 0: p95 2.99 s"


@pytest.mark.parametrize(("most", "top"), [(0, 1), (0.7, 0.8), (1, 1), (1.2, 1.2), (99, 100), (101, 120), (7300, 8000)])
def test_the_axis_ends_at_a_round_number(most: float, top: float) -> None:
    assert nice_top(most) == pytest.approx(top)


def test_charts_of_nothing_have_an_axis() -> None:
    for chart in (line_chart(axis(), [Series("s", "c1", [])]), bar_chart(axis(), [])):
        assert [tick.text for tick in chart.ticks] == ["0", "0.25", "0.5", "0.75", "1"]
        assert [*chart.lines, *chart.bars, *chart.dots] == []
