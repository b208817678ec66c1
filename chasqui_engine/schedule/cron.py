"""Cron schedules: the syntax, the calendar and the daylight-saving rules of ChasquiMQ, as pure functions of time.

Our own, as a schedule must fire here exactly when ChasquiMQ fires it: `croniter` refuses `5L`, and 7 for Sunday beside
seconds, and fires otherwise on `W` and `#` beside the other day field. On what both know, it is our check.

    ┌ second 0-59; may be left out, then 0
    │ ┌ minute 0-59
    │ │ ┌ hour 0-23
    │ │ │ ┌ day of month 1-31; `L` is the last day, `15W` the working day nearest to the 15th
    │ │ │ │ ┌ month 1-12 or JAN-DEC
    │ │ │ │ │ ┌ day of week 0-7 or SUN-SAT, 0 and 7 are Sunday; `5L` is the last Friday, `5#2` the second
    │ │ │ │ │ │ ┌ year 1-5000; may be left out
    0 0 9 * * 1-5

A field is `*`, or a list of `n`, `a-b`, `*/step`, `a-b/step` and `n/step` (from n to the end). `?` means `*` in the two
day fields. Ranges do not wrap around: write `FRI-SUN,MON`. When both day fields are restricted, either one is enough;
a `+` before the day of week asks for both (`0 0 13 * +FRI`). There are nicknames: `@daily` and others.

Where the local clock jumps: a local time that happens twice fires once, at its first instant. A local time that does
not exist fires at the first instant after the gap if the schedule names one single second, minute and hour (a daily
job must not be lost), and not at all otherwise.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_FIELDS = ("second", "minute", "hour", "day of month", "month", "day of week", "year")
_LOW = (0, 0, 0, 1, 1, 0, 1)
_HIGH = (59, 59, 23, 31, 12, 7, 5000)
_DAY_FIELDS = (3, 5)
_LAST_YEAR = _HIGH[-1]
_MOST_CHARS = 1024
"""Of an expression, or the name of a zone: a list of a hundred thousand items would hold up its reader."""

# Replaced as plain text, in this order and in whatever field they stand, because that is what ChasquiMQ accepts.
# A range that ends on Sunday ends on 7, because ranges do not wrap around.
_NAMES = {"-SUN": "-7"}
_NAMES |= {name: str(n) for n, name in enumerate(["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"])}
_NAMES |= {name: str(n) for n, name in enumerate(["JAN", "FEB", "MAR", "APR", "MAY", "JUN"], 1)}
_NAMES |= {name: str(n) for n, name in enumerate(["JUL", "AUG", "SEP", "OCT", "NOV", "DEC"], 7)}
_NICKNAMES = {
    "@HOURLY": "0 * * * *",
    "@DAILY": "0 0 * * *",
    "@WEEKLY": "0 0 * * 0",
    "@MONTHLY": "0 0 1 * *",
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
}
_ITEM = re.compile(r"(?:([0-9]{1,99})(?:-([0-9]{1,99}))?|\*(?=/))(?:/([0-9]{1,99}))?")
_WORKING_DAY = re.compile(r"([0-9]+)W[0-9LW*]*")
_OFFSET = re.compile(r"([+-])(?:([0-9]{1,6}):([0-9]{1,6})|([0-9]{2})([0-9]{2}))")
# They stand in the zone directories of some systems, but mean another thing on each, or count leap seconds.
_NOT_ZONES = frozenset({"Factory", "localtime", "posix", "posixrules", "right"})
_END_OF_TIME_S = int(datetime(_LAST_YEAR + 1, 1, 2, tzinfo=UTC).timestamp())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Days:
    """Which days of a month match. Weekdays count from Sunday = 0, but months start on a weekday from Monday = 0."""

    days: frozenset[int]
    last_day: bool
    working_days: frozenset[int]
    weekdays: frozenset[int]
    nth_weekdays: frozenset[tuple[int, int]]
    last_weekdays: frozenset[int]
    both: bool
    """Day of month and day of week must match; otherwise either does."""

    def matches(self, day: int, starts_on: int, length: int) -> bool:
        weekday = (starts_on + day) % 7
        by_month = (
            day in self.days
            or (self.last_day and day == length)
            or any(_nearest_working_day(d, starts_on, length) == day for d in self.working_days if d <= length)
        )
        by_week = (
            weekday in self.weekdays
            or (weekday, (day + 6) // 7) in self.nth_weekdays
            or (weekday in self.last_weekdays and day + 7 > length)
        )
        return (by_month and by_week) if self.both else (by_month or by_week)


def _nearest_working_day(day: int, starts_on: int, length: int) -> int:
    """Monday to Friday, and never in another month."""
    weekday = (starts_on + day) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


@lru_cache(maxsize=4096)
def _matching_days(rule: _Days, starts_on: int, length: int) -> tuple[int, ...]:
    return tuple(day for day in range(1, length + 1) if rule.matches(day, starts_on, length))


@dataclass(frozen=True, slots=True, kw_only=True)
class CronSchedule:
    """A cron expression in a time zone: `parse` makes it, `next_after_ms` asks it."""

    zone: tzinfo
    seconds: Sequence[int]
    minutes: Sequence[int]
    hours: Sequence[int]
    days: _Days
    months: Sequence[int]
    years: Sequence[int]
    once_a_day: bool
    """It names one single second, minute and hour, none of them by steps."""

    @staticmethod
    def parse(expression: str, tz: str | None = None) -> CronSchedule:
        """The schedule of an expression in a zone: None, `UTC`, `Z`, `+05:30`, `+0530` or an IANA name."""
        for field, value in ("expression", expression), ("tz", "" if tz is None else tz):
            if not isinstance(value, str):
                raise ConfigError(f"{field} must be a string, got {value!r}")
            if len(value) > _MOST_CHARS:
                raise ConfigError(f"{field} must be at most {_MOST_CHARS} characters, got {len(value)}")
        return _parse(expression, tz)

    def next_after_ms(self, t_ms: int) -> int | None:
        """The first fire strictly after `t_ms`, on a whole second; None when there is none up to the year 5000."""
        t = t_ms // 1000
        if t >= _END_OF_TIME_S:
            return None
        wall = self._next_wall(self._not_yet_fired(t))
        while wall is not None:
            at = int(wall.timestamp())
            landed = self._local(at)
            if landed == wall:
                return at * 1000
            # The clock jumps over `wall`, and `at` is later than the jump by less than the gap is wide.
            at = _first(at - int((landed - wall).total_seconds()), at, self._is_later_than(wall))
            if self.once_a_day:
                return at * 1000
            wall = self._next_wall(self._local(at))
        return None

    # Local times carry the schedule's zone. Between two such, Python compares and subtracts what the clock on the
    # wall shows, not the instants: exactly what is wanted here.

    def _local(self, second: int) -> datetime:
        return datetime.fromtimestamp(second, self.zone)

    def _is_later_than(self, wall: datetime) -> Callable[[int], bool]:
        return lambda t: self._local(t) > wall

    def _not_yet_fired(self, second: int) -> datetime:
        """The earliest local time whose turn comes after a second."""
        here = self._local(second)
        if not here.fold:
            return here + timedelta(seconds=1)
        # In the second pass of a repeated hour, the whole hour has had its turn in the first.
        return self._local(_first(second, second + 86_400, lambda u: not self._local(u).fold))

    def _next_wall(self, wall: datetime) -> datetime | None:
        """The first matching local time from `wall` on, whether or not the clock ever shows it."""
        today = (wall.year, wall.month, wall.day)
        for date in self._dates_from(today):
            time = self._time_from(wall.hour, wall.minute, wall.second) if date == today else self._time_from(0, 0, 0)
            if time is not None:
                return datetime(*date, *time, tzinfo=self.zone)
        return None

    def _dates_from(self, first: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
        years = (year for year in range(first[0], _LAST_YEAR + 1) if year in self.years)
        for year in islice(years, 400):  # then the calendar repeats itself
            for month in self.months:
                if (year, month) < first[:2]:
                    continue
                for day in _matching_days(self.days, *monthrange(year, month)):
                    if (year, month, day) >= first:
                        yield year, month, day

    def _time_from(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        if hour in self.hours:
            if minute in self.minutes and (found := _at_least(second, self.seconds)) is not None:
                return hour, minute, found
            if (found := _at_least(minute + 1, self.minutes)) is not None:
                return hour, found, self.seconds[0]
        found = _at_least(hour + 1, self.hours)
        return None if found is None else (found, self.minutes[0], self.seconds[0])


def _at_least(low: int, values: Sequence[int]) -> int | None:
    i = bisect_left(values, low)
    return values[i] if i < len(values) else None


def _first(after: int, last: int, holds: Callable[[int], bool]) -> int:
    """The first instant after `after` from which on `holds` is true; at the latest `last`."""
    return after + 1 + bisect_left(range(after + 1, last), True, key=holds)


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of an expression, to be read."""

    expression: str
    name: str
    low: int
    high: int
    text: str

    def refuse(self, item: str) -> NoReturn:
        raise ConfigError(
            f"cron expression {self.expression!r}: {self.name} {item!r} is not understood; write *, or a list of "
            f"values from {self.low} to {self.high}, rising ranges a-b and steps */n"
        )

    def items(self) -> list[str]:
        return [item for item in self.text.split(",") if item]

    def values(self, items: list[str]) -> Sequence[int]:
        if self.text == "*":
            return range(self.low, self.high + 1)
        return tuple(sorted({value for item in items for value in self.read(item)}))

    def read(self, item: str) -> range:
        match = _ITEM.fullmatch(item)
        if match is None:
            self.refuse(item)
        first, last, step = match.groups()
        low = int(first or self.low)
        # A lone number means itself, but with a step everything from there on.
        high = int(last or (self.high if step or not first else first))
        if not self.low <= low <= high <= self.high or not 0 < int(step or 1) <= 0xFFFF - low:
            self.refuse(item)
        return range(low, high + 1, int(step or 1))

    def read_number(self, item: str) -> int:
        if not item.isdecimal():
            self.refuse(item)
        return self.read(item)[0]

    def all_values(self) -> Sequence[int]:
        return self.values(self.items()) or self.refuse(self.text)

    def is_one_value(self) -> bool:
        return len(self.all_values()) == 1 and all(self.read(item).step == 1 for item in self.items())


@lru_cache(maxsize=1024)
def _parse(expression: str, tz: str | None) -> CronSchedule:
    texts = _split(expression)
    second, minute, hour, day, month, weekday, year = (
        _Field(expression, name, low, high, text)
        for name, low, high, text in zip(_FIELDS, _LOW, _HIGH, texts, strict=True)
    )
    return CronSchedule(
        zone=_zone(tz),
        seconds=second.all_values(),
        minutes=minute.all_values(),
        hours=hour.all_values(),
        days=_days(day, weekday),
        months=month.all_values(),
        years=year.all_values(),
        once_a_day=all(field.is_one_value() for field in (second, minute, hour)),
    )


def _split(expression: str) -> list[str]:
    """The seven fields, with the optional ones filled in and names and synonyms replaced."""
    text = expression.upper().strip()
    text = _NICKNAMES.get(text, text)
    for name, number in _NAMES.items():
        text = text.replace(name, number)
    fields = text.split()
    if len(fields) == 5:
        fields.insert(0, "0")
    if len(fields) == 6:
        fields.append("*")
    if len(fields) != len(_FIELDS):
        raise ConfigError(
            f"cron expression {expression!r} has {len(fields)} fields: write 5 (minute hour day month weekday), 6 with "
            f"seconds first, 7 with years last, or one of {', '.join(_NICKNAMES).lower()}"
        )
    for i in _DAY_FIELDS:
        fields[i] = fields[i].replace("?", "*")
    return fields


def _days(day: _Field, weekday: _Field) -> _Days:
    both = weekday.text.startswith("+")
    weekday = replace(weekday, text=weekday.text.removeprefix("+"))
    plain, nth, last = _weekdays(weekday)
    return _Days(
        days=frozenset(day.values([item for item in day.items() if item != "L" and not _WORKING_DAY.fullmatch(item)])),
        last_day="L" in day.items(),
        working_days=frozenset(day.read_number(m[1]) for m in map(_WORKING_DAY.fullmatch, day.items()) if m),
        weekdays=frozenset(d % 7 for d in weekday.values(plain)),
        nth_weekdays=frozenset(nth),
        last_weekdays=frozenset(last),
        both=both or "*" in (day.text, weekday.text),
    )


def _weekdays(field: _Field) -> tuple[list[str], set[tuple[int, int]], set[int]]:
    """The items of a day-of-week field: plain ones, `d#n` and `dL` (where ChasquiMQ takes no 7 for Sunday)."""
    plain: list[str] = []
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    for item in field.items():
        days, hashed, which = item.partition("#")
        if hashed and re.fullmatch("[0-9#L]*L", which):
            last.update(field.read(days))
        elif hashed:
            n = re.fullmatch("0*([1-5])", which)
            if n is None:
                field.refuse(item)
            nth.update((d % 7, int(n[1])) for d in field.read(days))
        elif not item.endswith("L"):
            plain.append(item)
        elif item != "L":  # alone it says nothing of any day
            last.add(field.read_number(item.rstrip("L")))
    return plain, nth, last


def _zone(tz: str | None) -> tzinfo:
    name = (tz or "").strip()
    if name.upper() in {"", "UTC"} or name == "Z":
        return UTC
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = (part for part in offset.groups() if part is not None)
        ahead = timedelta(hours=int(hours), minutes=int(minutes))
        if ahead < timedelta(days=1):
            return timezone(-ahead if sign == "-" else ahead)
    elif name.split("/")[0] not in _NOT_ZONES:
        # A name that is no zone's may be no file's, a folder's, or another kind of file's: each is its own error.
        with suppress(ZoneInfoNotFoundError, ValueError, OSError):
            return ZoneInfo(name)
    raise ConfigError(f"tz {tz!r} is not a time zone: write UTC, an offset like +05:30, or a name like Europe/London")
