"""Ranges of a stream: they cover everything once, and are about equal."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chasqui_engine.spark.read.splits import SAMPLE, split
from chasqui_engine.values import stream_ids
from chasqui_engine.values.errors import ConfigError
from chasqui_engine.values.stream_ids import as_number, as_text


def sampler_of(numbers: list[int]):  # type: ignore[no-untyped-def]
    def sample(starts: Sequence[str], end: str) -> list[list[str]]:
        found = []
        for start in starts:
            at = bisect.bisect_left(numbers, as_number(start))
            found.append([as_text(n) for n in numbers[at : at + SAMPLE] if n <= as_number(end)])
        return found

    return sample


def counts(numbers: list[int], wanted: int) -> list[int]:
    ranges = split(as_text(numbers[0]), as_text(numbers[-1]), len(numbers), wanted, sampler_of(numbers))
    spans = [(as_number(part.start), as_number(part.end)) for part in ranges]
    assert spans[0][0] == numbers[0]
    assert spans[-1][1] == numbers[-1]
    assert all(before[1] + 1 == after[0] for before, after in itertools.pairwise(spans))
    assert all(start in numbers for start, _ in spans), "every cut is an entry that is there"
    return [bisect.bisect_right(numbers, end) - bisect.bisect_left(numbers, start) for start, end in spans]


ids = st.sets(st.tuples(st.integers(0, 5000), st.integers(0, 40)), min_size=1, max_size=400).map(
    lambda pairs: sorted((ms << 64) | seq for ms, seq in pairs)
)


@given(ids, st.integers(1, 12))
@settings(max_examples=100, deadline=None)
def test_every_entry_is_in_exactly_one_range(numbers: list[int], wanted: int) -> None:
    found = counts(numbers, wanted)
    assert sum(found) == len(numbers)
    assert len(found) == min(wanted, len(numbers)), "fewer only where there are fewer entries"
    assert min(found) > 0


def even(rng: random.Random) -> list[int]:
    return [(1_700_000_000_000 + n) << 64 for n in range(50_000)]


def bursts(rng: random.Random) -> list[int]:
    numbers = set()
    for burst in range(5):
        start = 1_700_000_000_000 + burst * 3_600_000
        numbers |= {((start + rng.randrange(2000)) << 64) | rng.randrange(1000) for _ in range(10_000)}
    return sorted(numbers)


def one_millisecond(rng: random.Random) -> list[int]:
    return [(1_700_000_000_000 << 64) | n for n in range(50_000)]


def growing(rng: random.Random) -> list[int]:
    return sorted({(1_700_000_000_000 + int(86_400_000 * rng.random() ** 0.1)) << 64 for _ in range(50_000)})


@pytest.mark.parametrize("shape", [even, bursts, one_millisecond, growing])
@pytest.mark.parametrize("wanted", [2, 4, 8])
def test_ranges_are_balanced(shape, wanted: int) -> None:  # type: ignore[no-untyped-def]
    numbers = shape(random.Random(7))
    found = counts(numbers, wanted)
    assert len(found) == wanted
    assert max(found) < 1.6 * len(numbers) / wanted


def test_ids_count_as_numbers() -> None:
    assert as_text(as_number("5-7")) == "5-7"
    assert stream_ids.after("5-18446744073709551615") == "6-0"
    assert stream_ids.before("6-0") == "5-18446744073709551615"
    assert stream_ids.ms_of("17-3") == 17
    assert as_number("5") == as_number("5-0")
    for bad in ("", "x", "5-x", "-1-0", "5-0-0", "18446744073709551616-0"):
        with pytest.raises(ConfigError):
            as_number(bad)
