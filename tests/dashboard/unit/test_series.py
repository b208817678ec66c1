"""Counting what happened over time."""

from __future__ import annotations

import pytest

from chasqui_engine.dashboard.live.series import POINTS, SPAN_MS, STEP_MS, WINDOWS_MIN, Series
from chasqui_engine.events import QueueEvent

NOW = 1_700_000_000_000 // 60_000 * 60_000


def event(ms: int, name: str = "completed", duration_us: int | None = None) -> QueueEvent:
    fields = {} if duration_us is None else {"duration_us": duration_us}
    return QueueEvent(name=name, job_id="j", fields=fields, entry_id=f"{ms}-0")


def test_rates_are_per_second() -> None:
    series = Series(NOW - SPAN_MS)
    series.add([event(NOW - 7_000) for _ in range(10)] + [event(NOW - 7_000, "failed"), event(NOW - 7_000, "dlq")])
    points = series.points(NOW, 5)
    assert len(points["completed"]) == POINTS
    assert sum(points["completed"]) == 10 / 5
    assert sum(points["failed"]) == sum(points["dead"]) == pytest.approx(1 / 5)
    assert points["step_ms"] == STEP_MS
    assert points["start_ms"] + POINTS * points["step_ms"] >= NOW


@pytest.mark.parametrize("minutes", WINDOWS_MIN)
def test_the_steps_merge_into_every_window(minutes: int) -> None:
    series = Series(NOW - SPAN_MS)
    series.add([event(NOW - 60_000) for _ in range(60)])
    points = series.points(NOW, minutes)
    jobs = sum(rate * points["step_ms"] / 1000 for rate in points["completed"])
    assert jobs == pytest.approx(60, rel=0.01)
    assert points["step_ms"] * POINTS == minutes * 60_000


def test_durations_are_told_to_within_a_tenth() -> None:
    series = Series(NOW - SPAN_MS)
    series.add([event(NOW - 7_000, duration_us=ms * 1000) for ms in range(1, 101)])
    points = series.points(NOW, 5)
    [half] = [value for value in points["p50_ms"] if value is not None]
    [most] = [value for value in points["p95_ms"] if value is not None]
    assert half == pytest.approx(50, rel=0.1)
    assert most == pytest.approx(95, rel=0.1)


def test_what_is_old_is_forgotten() -> None:
    series = Series(NOW - SPAN_MS)
    series.add([event(NOW - SPAN_MS + n * STEP_MS) for n in range(720)])
    series.forget_before(NOW - 10_000)
    assert sum(map(bool, series.points(NOW, 5)["completed"])) <= 3
    assert series.since_ms == NOW - 10_000


def test_an_event_that_counts_nothing_and_one_with_nonsense_in_it() -> None:
    series = Series(NOW - SPAN_MS)
    odd = QueueEvent(name="completed", job_id="j", fields={"duration_us": "much"}, entry_id=f"{NOW - 7000}-0")
    series.add([event(NOW - 7_000, "drained"), odd, event(NOW - 7_000, duration_us=0)])
    points = series.points(NOW, 5)
    assert sum(points["completed"]) == 2 / 5
    assert [value for value in points["p50_ms"] if value is not None]


def test_a_weight_stands_for_what_was_not_read() -> None:
    series = Series(NOW - SPAN_MS)
    series.add([event(NOW - 7_000) for _ in range(10)], weight=3.0)
    assert sum(series.points(NOW, 5)["completed"]) == pytest.approx(6)


@pytest.mark.parametrize("into_the_step_ms", [0, 500, 1_999, 2_000, 4_000])
def test_a_steady_rate_looks_steady_at_any_moment(into_the_step_ms: int) -> None:
    now = NOW + into_the_step_ms
    series = Series(now - SPAN_MS)
    series.add([event(ms) for ms in range(NOW - 60_000, now, 100)])
    assert series.points(now, 5)["completed"][-10:] == [10.0] * 10
