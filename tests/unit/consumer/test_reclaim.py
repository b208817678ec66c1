"""Which entries are claimed: those that stayed idle while real time passed."""

from __future__ import annotations

import pytest

from chasqui_engine._redis.commands.group import Pending
from chasqui_engine.consumer.clock_steps import ClockSteps
from chasqui_engine.consumer.reclaim import IdleEntries

LEAST_MS = 30_000
HOUR_MS = 3_600_000


def idle(ms: int) -> list[Pending]:
    return [Pending(b"1-0", b"somebody", ms, 1)]


def claimed(*looks: tuple[float, int | None]) -> list[bool]:
    """Per look (at second, idle ms or None for not listed): whether the entry was to be claimed."""
    entries = IdleEntries(LEAST_MS)
    return [bool(entries.check([] if ms is None else idle(ms), at)) for at, ms in looks]


def test_an_entry_of_a_dead_worker_is_claimed_when_its_time_has_come() -> None:
    assert claimed((0, 12_000), (5, 17_000), (15, 27_000), (18, 30_000)) == [False, False, False, True]


def test_an_entry_that_lay_there_for_long_is_claimed_at_the_second_look() -> None:
    assert claimed((0, HOUR_MS), (5, HOUR_MS + 5_000), (15, HOUR_MS + 15_000)) == [False, False, True]


def test_a_step_forward_takes_nothing_from_a_worker_whose_heart_beats() -> None:
    # The step; then the beat, which leaves it off the list; then another step.
    assert not any(claimed((0, HOUR_MS), (5, HOUR_MS + 5_000), (10, None), (12, HOUR_MS), (17, None)))


def test_a_beat_and_a_step_between_two_looks_are_seen() -> None:
    assert not any(claimed((0, HOUR_MS), (15, HOUR_MS + 1_000), (29, HOUR_MS + 2_000)))
    assert not any(claimed((0, 12_000), (18, HOUR_MS), (23, HOUR_MS + 5_000)))


def test_the_next_look_is_when_the_first_may_be_claimed() -> None:
    entries = IdleEntries(LEAST_MS)
    entries.check(idle(12_000), 0)
    assert entries.next_s == 18
    entries.check(idle(29_000), 17)
    assert entries.next_s == 1
    entries.check([], 20)
    assert entries.next_s == float("inf")


@pytest.mark.parametrize(("then_ms", "step_ms"), [(5_000, 0), (5_900, 0), (3_605_000, HOUR_MS), (-3_595_000, -HOUR_MS)])
def test_a_step_of_the_clock_is_what_the_other_clock_does_not_explain(then_ms: int, step_ms: int) -> None:
    steps = ClockSteps(None, "q")  # type: ignore[arg-type]
    assert steps.note(1_000_000, 50) == 0
    assert steps.note(1_000_000 + then_ms, 55) == step_ms
    assert steps.note(1_000_000 + then_ms + 5_000, 60) == 0
