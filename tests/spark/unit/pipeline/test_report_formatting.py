"""Numbers as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chasqui_engine.pipeline.report import formatting


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (0.4213, "0.421 ms"),
        (8.25, "8.25 ms"),
        (120, "120 ms"),
        (999.4, "999 ms"),
        (999.7, "1 s"),
        (2990, "2.99 s"),
        (59_990, "1 min"),
        (210_000, "3.5 min"),
        (7_200_000, "2 h"),
        (36_000_000_000, "10,000 h"),
    ],
)
def test_a_duration_has_the_unit_that_fits(ms: float | None, text: str) -> None:
    assert formatting.duration(ms) == text


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (0.99, "success_rate", "99 %"),
        (0.9995, "success_rate", "99.95 %"),
        (2000.0, "latency_p95_ms", "2 s"),
        (1000.0, "backlog", "1,000"),
        (5.0, "throughput_per_s", "5/s"),
        (0.00046, "throughput_per_s", "0.00046/s"),
    ],
)
def test_a_metric_is_written_in_its_unit(value: float, metric: str, text: str) -> None:
    assert formatting.measure(value, metric) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (9999, "9,999"), (12_345, "12.3k"), (2e6, "2M"), (3.2e9, "3.2G")]
)
def test_a_count_on_an_axis_is_short(value: float, text: str) -> None:
    assert formatting.short_count(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.0, "0 %"), (0.9637, "96.4 %"), (1.0, "100 %")])
def test_a_share_is_in_percent(value: float | None, text: str) -> None:
    assert formatting.share(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=1e-12, max_value=1e15))
def test_no_number_has_an_exponent_or_loses_its_size(value: float) -> None:
    text = formatting.significant(value)
    assert set(text) <= set("0123456789,.")
    assert float(text.replace(",", "")) == pytest.approx(value, rel=0.005)
