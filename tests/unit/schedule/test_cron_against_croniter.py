"""Our fires against those of `croniter`, on the patterns that both know: five fields, at most one of the days given.

Around a change of the clock both go their own ways (ours is ChasquiMQ's), so that fires there are left out.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import CroniterBadDateError, croniter

from chasqui_engine.schedule.cron import CronSchedule

CASES = 500
"""Patterns for each zone."""
LONGEST_GAP = 9
"""Years: what does not match in eight, from one 29th of February to the next but one, never does."""
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def field(dice: random.Random, low: int, high: int, names: tuple[str, ...] = ()) -> str:
    """A star, or a list of values, ranges and steps; a value may be written as its name."""

    def item() -> str:
        first, last = sorted(dice.sample(range(low, high + 1), 2))
        step = dice.randint(1, high - low)
        ways = [
            str(first),
            str(last),
            f"{first}-{last}",
            f"*/{step}",
            f"{first}-{last}/{step}",
            dice.choice(names or "*"),
        ]
        # `1/2` goes on to 7, Sunday, for ChasquiMQ, and ends on 6 for croniter.
        ways += [] if names == WEEKDAYS else [f"{first}/{step}"]
        return dice.choice(ways)

    items = [item() for _ in range(dice.choice((1, 1, 2, 3)))]
    return "*" if "*" in items else ",".join(items)


def pattern(dice: random.Random) -> str:
    day, weekday = dice.choice([("*", "*"), (field(dice, 1, 31), "*"), ("*", field(dice, 0, 6, WEEKDAYS))])
    return f"{field(dice, 0, 59)} {field(dice, 0, 23)} {day} {field(dice, 1, 12, MONTHS)} {weekday}"


def clock_changes_near(instant: datetime) -> bool:
    """Whether it does within a day."""
    offsets = {(instant.astimezone(UTC) + timedelta(days=d)).astimezone(instant.tzinfo).utcoffset() for d in (-1, 0, 1)}
    return len(offsets) > 1


def croniters(expression: str, after: datetime) -> datetime | None:
    try:
        fire: datetime = croniter(expression, after, max_years_between_matches=LONGEST_GAP).get_next(datetime)
    except CroniterBadDateError:
        return None
    return fire


def ours(expression: str, after: datetime) -> datetime | None:
    fire_ms = CronSchedule.parse(expression, str(after.tzinfo)).next_after_ms(int(after.timestamp()) * 1000)
    return None if fire_ms is None else datetime.fromtimestamp(fire_ms // 1000, after.tzinfo)


@pytest.mark.parametrize(
    "tz",
    [
        *("UTC", "Asia/Kolkata", "America/Phoenix", "Pacific/Kiritimati"),
        *("America/New_York", "Europe/London", "Australia/Lord_Howe", "Pacific/Chatham"),
    ],
)
def test_the_next_fire_is_the_same(tz: str) -> None:
    dice = random.Random(tz)
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2024, 2031))
    compared, fires = 0, 0
    for _ in range(CASES):
        expression = pattern(dice)
        now = datetime.fromtimestamp(dice.randint(first, last), ZoneInfo(tz))
        expected, found = croniters(expression, now), ours(expression, now)
        if any(clock_changes_near(instant) for instant in (now, expected, found) if instant):
            continue
        assert found == expected, (expression, now.isoformat())
        compared += 1
        fires += found is not None
    assert compared > 0.9 * CASES
    assert fires > 0.8 * CASES


@pytest.mark.parametrize(
    ("expression", "after"),
    [
        ("0 0 29 2 *", "2024-02-29T00:00Z"),
        ("0 0 30 2 *", "2024-01-01T00:00Z"),
        ("59 23 31 12 *", "2024-12-31T23:58:59Z"),
    ],
)
def test_rare_days_come_at_the_same_time(expression: str, after: str) -> None:
    now = datetime.fromisoformat(after).astimezone(ZoneInfo("UTC"))
    assert ours(expression, now) == croniters(expression, now)
