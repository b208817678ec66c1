"""What turns bytes into jobs, JSON and rows: every hostile entry becomes a value, a bad row, or an error with words."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from tests.security.fuzz.conversions import convert_all
from tests.support.hostile.seeds import CHEAP_COUNT, SEED, SOAK_COUNT
from tests.support.measure import rss_mib

MOST_GROWTH_MIB = 100


def test_hostile_entries_are_converted_or_refused() -> None:
    print(f"CHASQUI_FUZZ_SEED={SEED}")
    outcomes = convert_all(SEED, CHEAP_COUNT)
    assert outcomes["stream job"]
    assert outcomes["stream unreadable"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_million_hostile_entries_are_converted_or_refused() -> None:
    print(f"CHASQUI_FUZZ_SEED={SEED}")
    convert_all(SEED, CHEAP_COUNT)
    before = rss_mib()
    outcomes = convert_all(SEED + 1, SOAK_COUNT)
    growth = rss_mib() - before
    print(f"{outcomes.total()} entries: {dict(sorted(outcomes.items()))}; {growth:+.0f} MiB")
    assert growth < MOST_GROWTH_MIB
