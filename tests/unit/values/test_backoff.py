"""How long a failed job waits: `min(delay × multiplier^(n−1), max) ± jitter`, the job's own words first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chasqui_engine import AddOptions, BackoffKind, BackoffSpec, ConfigError, JobRetryOverride, RetryConfig
from chasqui_engine.values.backoff import backoff_ms

STEADY = RetryConfig(jitter_ms=0)


def delays(spec: BackoffSpec | None, config: RetryConfig = STEADY, retries: int = 5) -> list[int]:
    return [backoff_ms(number, spec, config, spread=0) for number in range(1, retries + 1)]


def test_the_workers_own_backoff() -> None:
    assert delays(None) == [100, 200, 400, 800, 1600]
    assert delays(None, retries=20)[-1] == 30_000
    assert delays(None, RetryConfig(initial_backoff_ms=7, multiplier=3, max_backoff_ms=100)) == [7, 21, 63, 100, 100]


def test_fixed_is_the_same_every_time() -> None:
    assert delays(BackoffSpec.fixed(250)) == [250] * 5


def test_fixed_pays_no_heed_to_a_multiplier() -> None:
    assert delays(BackoffSpec("fixed", 250, multiplier=10.0)) == [250] * 5


def test_exponential_grows() -> None:
    assert delays(BackoffSpec.exponential(250, multiplier=3.0)) == [250, 750, 2250, 6750, 20_250]


def test_exponential_is_capped_by_its_own_maximum() -> None:
    assert delays(BackoffSpec.exponential(250, max_ms=1000)) == [250, 500, 1000, 1000, 1000]


def test_a_delay_over_the_maximum_is_capped_from_the_start() -> None:
    assert delays(BackoffSpec("exponential", 1000, max_delay_ms=500)) == [500] * 5


@pytest.mark.parametrize("kind", ["fixed", "exponential"])
def test_without_a_maximum_of_its_own_the_workers_applies(kind: str) -> None:
    """As ChasquiMQ does it: a fixed delay of a minute waits 30 s unless the job says otherwise."""
    assert delays(BackoffSpec(kind, 60_000))[0] == 30_000
    assert delays(BackoffSpec(kind, 60_000, max_delay_ms=90_000))[0] == 60_000


@pytest.mark.parametrize("spec", [BackoffSpec.fixed(600_000), BackoffSpec.exponential(600_000)])
def test_a_delay_above_the_workers_default_maximum_is_honoured_when_a_job_is_added_with_it(spec: BackoffSpec) -> None:
    retry = AddOptions(retry=JobRetryOverride(backoff=spec)).retry
    assert retry is not None
    assert delays(retry.backoff) == [600_000] * 5


@pytest.mark.parametrize("spec", [BackoffSpec.fixed(30_000), BackoffSpec.exponential(60_000, max_ms=90_000)])
def test_a_backoff_keeps_what_it_says_when_the_maximum_does_not_cut_it_or_is_its_own(spec: BackoffSpec) -> None:
    retry = JobRetryOverride(max_attempts=3, backoff=spec)
    assert AddOptions(retry=retry).retry == retry


def test_without_a_multiplier_of_its_own_the_workers_applies() -> None:
    assert delays(BackoffSpec("exponential", 10), RetryConfig(multiplier=5.0, jitter_ms=0)) == [10, 50, 250, 1250, 6250]


@pytest.mark.parametrize("kind", ["fibonacci", "unknown", "", "FIXED"])
def test_a_kind_we_do_not_know_is_exponential(kind: str) -> None:
    assert BackoffKind.of(kind) is BackoffKind.UNKNOWN
    assert delays(BackoffSpec(kind, 10)) == delays(BackoffSpec("exponential", 10)) == [10, 20, 40, 80, 160]


def test_the_kinds_we_know() -> None:
    assert BackoffKind.of("fixed") is BackoffKind.FIXED
    assert BackoffKind.of("exponential") is BackoffKind.EXPONENTIAL
    assert BackoffSpec(BackoffKind.FIXED, 1) == BackoffSpec("fixed", 1)


def test_jitter_goes_both_ways_and_comes_after_the_maximum() -> None:
    config = RetryConfig(initial_backoff_ms=1000, max_backoff_ms=1000, jitter_ms=100)
    assert [backoff_ms(1, None, config, spread) for spread in (-1, 0, 1)] == [900, 1000, 1100]


def test_a_jobs_own_jitter_goes_before_the_workers() -> None:
    config = RetryConfig(jitter_ms=100)
    assert backoff_ms(1, BackoffSpec.fixed(1000), config, 1) == 1100
    assert backoff_ms(1, BackoffSpec.fixed(1000, jitter_ms=7), config, 1) == 1007
    assert backoff_ms(1, BackoffSpec.fixed(1000, jitter_ms=0), config, 1) == 1000


def test_jitter_never_makes_a_delay_negative() -> None:
    assert backoff_ms(1, BackoffSpec.fixed(10, jitter_ms=1000), STEADY, -1) == 0


def test_chance_uses_all_of_the_jitter() -> None:
    drawn = {backoff_ms(1, BackoffSpec.fixed(100, jitter_ms=10), STEADY) for _ in range(2000)}
    assert 90 <= min(drawn) < 95
    assert 105 < max(drawn) <= 110


@pytest.mark.parametrize("multiplier", [2, 2.0, 1e18])
def test_growth_beyond_all_bounds_stops_at_the_maximum(multiplier: float) -> None:
    spec = BackoffSpec("exponential", 100, multiplier=multiplier)
    assert backoff_ms(2**32, spec, STEADY, 0) == 30_000


def test_nothing_grown_stays_nothing() -> None:
    assert backoff_ms(10_000, BackoffSpec("exponential", 0, multiplier=10.0), STEADY, 0) == 0


def test_a_multiplier_below_one_shrinks() -> None:
    assert delays(BackoffSpec("exponential", 100, multiplier=0.5)) == [100, 50, 25, 12, 6]
    assert delays(BackoffSpec("exponential", 100, multiplier=0.0)) == [100, 0, 0, 0, 0]


whole = st.integers(0, 2**63 - 1)


@settings(deadline=None)
@given(
    st.integers(1, 2**32),
    st.builds(BackoffSpec, st.text(max_size=8), whole, st.none() | whole, st.none() | st.floats(0, 1e18), whole),
    st.floats(-1, 1),
)
def test_always_a_whole_number_from_nothing_to_maximum_and_jitter(
    number: int, spec: BackoffSpec, spread: float
) -> None:
    delay = backoff_ms(number, spec, STEADY, spread)
    limit = STEADY.max_backoff_ms if spec.max_delay_ms is None else spec.max_delay_ms
    assert type(delay) is int
    assert 0 <= delay <= float(limit) + float(spec.jitter_ms or 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", None),
        ("kind", 5),
        ("delay_ms", None),
        ("delay_ms", -1),
        ("delay_ms", 1.5),
        ("delay_ms", True),
        ("delay_ms", "5"),
        ("delay_ms", 2**63),
        ("max_delay_ms", -1),
        ("max_delay_ms", 1.5),
        ("multiplier", -0.1),
        ("multiplier", float("nan")),
        ("multiplier", float("inf")),
        ("multiplier", "2"),
        ("multiplier", True),
        ("jitter_ms", -1),
        ("jitter_ms", 0.5),
    ],
)
def test_a_spec_out_of_range_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"backoff\.{field} "):
        BackoffSpec(**{"kind": "fixed", "delay_ms": 1, field: value})


@pytest.mark.parametrize("field", ["initial_backoff_ms", "max_backoff_ms", "multiplier", "jitter_ms"])
@pytest.mark.parametrize("value", [None, -1, "1", True, float("nan")])
def test_a_config_out_of_range_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"RetryConfig\.{field} "):
        RetryConfig(**{field: value})


def test_a_spec_and_its_fields() -> None:
    spec = BackoffSpec.exponential(250, multiplier=3.0, max_ms=10_000, jitter_ms=50)
    fields = {"kind": "exponential", "delay_ms": 250, "max_delay_ms": 10_000, "multiplier": 3.0, "jitter_ms": 50}
    assert spec.to_dict() == fields
    assert BackoffSpec.from_dict(fields) == spec
    assert BackoffSpec.fixed(5).to_dict() == {"kind": "fixed", "delay_ms": 5}


@pytest.mark.parametrize("fields", [{}, {"kind": "fixed"}, {"delay_ms": 1}, {"kind": "fixed", "delay_ms": 1, "x": 1}])
def test_fields_that_make_no_spec(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="backoff"):
        BackoffSpec.from_dict(fields)
