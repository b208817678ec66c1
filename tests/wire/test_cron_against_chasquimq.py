"""Our fire times against those of the real ChasquiMQ.

ChasquiMQ is asked in a process of its own (this very file, run as a program): its module can abort an interpreter at
exit. It says when a schedule fires next after a start time, and what its scheduler does with a spec that is late.

Ours departs from it in three points, each of which shows up here only as such:
- Asked during the second pass of a repeated hour, it answers with a time in the first pass, which is past.
- When its search for the next day of a once-a-day schedule sets foot in a gap of the clock, it fires at the end of the
  gap, even if the schedule names another time: `0 1 * * *` in New York comes twice on the day the clock goes forward.
- Its fires keep the fraction of the second from which it searched.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from redis.asyncio import Redis

from chasqui_engine.codec.repeatable import encode_spec
from chasqui_engine.schedule.cron import CronSchedule
from chasqui_engine.schedule.plan import plan_fires
from chasqui_engine.schedule.spec import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine.values.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

Case = tuple[str, str | None, int]  # expression, zone, start in epoch ms

# ChasquiMQ knows only the future, so the random nights are those of the coming years.
THIS_YEAR = time.gmtime().tm_year
NIGHTS = {
    "America/New_York": ["2027-03-14T07:00:00Z", "2027-11-07T06:00:00Z"],
    "Australia/Lord_Howe": ["2027-10-02T15:30:00Z", "2027-04-03T15:00:00Z"],
    "Antarctica/Troll": ["2027-03-28T01:00:00Z", "2027-10-31T01:00:00Z"],
    "America/Havana": ["2027-03-14T05:00:00Z", "2027-11-07T05:00:00Z"],
}
# None whose rules change from year to year, such as Casablanca's: this machine may know newer ones than ChasquiMQ.
ZONES = [
    *("America/New_York", "Australia/Lord_Howe", "Europe/London", "Pacific/Apia"),
    *("America/St_Johns", "Asia/Kolkata", "Asia/Tehran", "Antarctica/Troll", "Pacific/Chatham", "America/Havana"),
    *("UTC", None, "+05:30", "-0330"),
]


def ask(what: str, url: str, queue: str, question: Any = None) -> Any:
    """Runs `_answer` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, what, url, queue],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def theirs_and_ours(cases: list[Case], url: str, queue: str) -> Iterator[tuple[Case, int | None, int | None]]:
    """Each case with the next fire by ChasquiMQ and by us; None where the schedule is refused, or never fires."""
    for case, theirs in zip(cases, ask("next", url, queue, cases), strict=True):
        expression, tz, start = case
        try:
            ours = CronSchedule.parse(expression, tz).next_after_ms(start)
        except ConfigError:
            ours = None
        yield case, theirs, ours


def agree(case: Case, theirs: int | None, ours: int | None) -> bool:
    if theirs is None or ours is None:
        return theirs is ours
    expression, tz, start = case
    schedule = CronSchedule.parse(expression, tz)
    theirs -= theirs % 1000
    if theirs <= start:
        return bool(local(start, schedule.zone).fold) and ours > start
    return theirs == ours or (theirs < ours and ends_gap_without_fire(theirs, schedule))


def local(t_ms: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(t_ms // 1000, zone)


def ends_gap_without_fire(t_ms: int, schedule: CronSchedule) -> bool:
    """The clock has just jumped forward, but not over the one time of day that the schedule names."""
    before, after = local(t_ms - 1000, schedule.zone), local(t_ms, schedule.zone)
    if not schedule.once_a_day or after - before == timedelta(seconds=1):
        return False
    hour, minute, second = schedule.hours[0], schedule.minutes[0], schedule.seconds[0]
    named = [day.replace(hour=hour, minute=minute, second=second) for day in (before, after)]
    return not any(before < wall < after for wall in named)


def check(cases: list[Case], url: str, queue: str) -> None:
    answers = list(theirs_and_ours(cases, url, queue))
    assert [answer for answer in answers if not agree(*answer)] == []
    same = sum(theirs is not None and theirs // 1000 * 1000 == ours for _, theirs, ours in answers)
    assert same > len(cases) * 0.6  # it is not all refusals and departures


def test_the_nights_when_the_clock_jumps(redis86_url: str, queue_name: str) -> None:
    expressions = ["* * * * *", "*/30 * * * *", "30 2 * * *", "15 1 * * *", "0 0 * * *", "30 0 * * *", "0 9 * * *"]
    expressions += ["0 2,3 * * *", "*/30 2 * * *", "30 30 2 * * SUN", "0,30 30 2 * * *", "30/40 2 * * *", "0 1 1 * *"]
    cases: list[Case] = [
        (expression, tz, jump + minutes * 60_000)
        for tz, nights in NIGHTS.items()
        for jump in (int(datetime.fromisoformat(night).timestamp() * 1000) for night in nights)
        for minutes in range(-150, 150, 15)
        for expression in expressions
        if jump > (time.time() + 86_400) * 1000
    ]
    if not cases:
        pytest.skip("these nights are past, and ChasquiMQ knows only the future")
    check(cases, redis86_url, queue_name)


def test_random_schedules_at_random_times(redis86_url: str, queue_name: str) -> None:
    rnd = random.Random(20270314)
    jumps = {tz: jumps_of(tz) for tz in ZONES}
    cases: list[Case] = []
    for _ in range(3000):
        tz = rnd.choice(ZONES)
        near = rnd.choice(jumps[tz]) + rnd.randint(-86_400, 7_200)
        far = int(datetime(THIS_YEAR + 1, 1, 1, tzinfo=UTC).timestamp()) + rnd.randint(0, 20 * 365 * 86_400)
        start = (far if rnd.random() < 0.2 else near) * 1000 + rnd.choice([0, 0, 1, 282, 999])
        cases.append((random_expression(rnd), tz, start))
    check(cases, redis86_url, queue_name)


def jumps_of(tz: str | None) -> list[int]:
    """The hours, in the twelve years to come, in which the zone's offset changes."""
    start = int(datetime(THIS_YEAR + 1, 1, 1, tzinfo=UTC).timestamp())
    if tz is None or "/" not in tz:
        return [start]
    zone = ZoneInfo(tz)
    hours = range(start, start + 12 * 365 * 86_400, 3600)
    offsets = [local(t * 1000, zone).utcoffset() for t in hours]
    return [hours[i] for i in range(1, len(hours)) if offsets[i] != offsets[i - 1]] or [start]


LOW, HIGH = (0, 0, 0, 1, 1, 0, 2027), (59, 59, 23, 31, 12, 7, 2040)
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


def random_expression(rnd: random.Random) -> str:
    fields = [random_field(rnd, i) for i in range(7)]
    if rnd.random() < 0.5:  # where clocks jump
        fields[2] = str(rnd.randint(0, 3))
    if rnd.random() < 0.3:  # once a day
        fields[:3] = ["0", str(rnd.choice([0, 15, 30])), str(rnd.randint(0, 3))]
    if rnd.random() < 0.05:
        fields[5] = f"+{fields[5]}"
    return " ".join(rnd.choices([fields[1:6], fields[:6], fields], [5, 4, 1])[0])


def random_field(rnd: random.Random, field: int) -> str:
    if rnd.random() < (0.3, 0.25, 0.3, 0.55, 0.6, 0.55, 0.7)[field]:
        return "*"
    return ",".join(random_item(rnd, field) for _ in range(rnd.choice([1, 1, 1, 2, 3])))


def random_item(rnd: random.Random, field: int) -> str:
    low, high = sorted(rnd.randint(LOW[field], HIGH[field]) for _ in range(2))
    forms = [f"{low}", f"{low}", f"{low}-{high}", f"{low}-{high}/{rnd.randint(1, 9)}", f"{low}/{rnd.randint(1, 20)}"]
    forms.append(f"*/{rnd.choice([1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 90])}")
    if field == 3:
        forms += ["L", f"{low}W"]
    if field == 4:
        forms += [MONTHS[low - 1], f"{MONTHS[low - 1]}-{MONTHS[high - 1].lower()}"]
    if field == 5:
        forms += [f"{low}L", f"{low}#{rnd.randint(1, 5)}", f"{low}-{high}#2", f"{low}#L", WEEKDAYS[low % 7]]
        forms.append(f"{WEEKDAYS[low % 7]}-{WEEKDAYS[high % 7].title()}")
    return rnd.choice(forms)


def test_the_same_expressions_are_refused(redis86_url: str, queue_name: str) -> None:
    rnd = random.Random(5)
    start = int(datetime(THIS_YEAR + 1, 1, 1, tzinfo=UTC).timestamp() * 1000)
    seeds = [
        "*/15 0-5 1,15 JAN-JUN MON-FRI",
        "0 30 9 L * 5#2",
        "5 4 15W */2 +MON",
        "1-5/2 22 ? * 1L",
        "0 0 1 1 * * 2030",
    ]
    cases: list[Case] = [("@daily", None, start), ("@midnight", None, start), ("", None, start)]
    for _ in range(800):
        text = rnd.choice(seeds)
        at = rnd.randrange(len(text))
        slip = rnd.choice([*"0123456789*?/-,#LW+@ ", "FRI", "60", "1-3", ",2", "/2"])
        cases.append((text[:at] + slip + text[at + rnd.randint(0, 1) :], None, start))
    answers = list(theirs_and_ours(cases, redis86_url, queue_name))
    assert [answer for answer in answers if answer[1] != answer[2]] == []
    refused = sum(theirs is None for _, theirs, _ in answers)
    assert 0.2 < refused / len(cases) < 0.8


def test_without_a_start_the_next_fire_is_the_next_from_now(redis86_url: str, queue_name: str) -> None:
    expressions = ["* * * * * *", "*/5 * * * * *", "*/7 * * * *", "0 9 * * 1-5", "0 0 29 2 *"]
    before = time.time_ns() // 1_000_000
    answers = ask("next", redis86_url, queue_name, [(expression, None, None) for expression in expressions])
    after = time.time_ns() // 1_000_000
    for expression, theirs in zip(expressions, answers, strict=True):
        schedule = CronSchedule.parse(expression)
        first, last = schedule.next_after_ms(before), schedule.next_after_ms(after)
        assert first is not None
        assert last is not None
        assert first <= theirs // 1000 * 1000 <= last


SKIP, ONCE, ALL_2, ALL_9 = (
    MissedFiresPolicy.skip(),
    MissedFiresPolicy.fire_once(),
    MissedFiresPolicy.fire_all(2),
    MissedFiresPolicy.fire_all(9),
)


def late_specs(now_ms: int) -> Iterator[tuple[RepeatableSpec, int, int]]:
    """Specs, the fire of each that is due, and its fires before. A minute later makes no difference."""
    dues = [(RepeatPattern.every(600_000), now_ms - late) for late in (120_000, 900_000, 2_100_000)]
    minute = now_ms // 60_000 - 35
    dues.append((RepeatPattern.cron(f"{minute % 10}-59/10 * * * *"), minute * 60_000))
    for pattern, due in dues:
        for policy in (SKIP, ONCE, ALL_2, ALL_9):
            base = RepeatableSpec("", pattern, None, missed_fires=policy)
            yield base, due, 0
            yield base.with_limit(2), due, 0
            yield base.with_limit(4), due, 2
            yield base.with_limit(2), due, 2
            yield base.with_end_before_ms(due + 600_000), due, 0
            yield base.with_end_before_ms(due + 2_400_000), due, 0
            yield base.with_end_before_ms(due - 1), due, 0
            yield base.with_start_after_ms(due + 180_000), due, 0


async def test_late_specs_are_dealt_with_alike(redis86_url: str, queue_name: str) -> None:
    tag = f"{{chasqui:{queue_name}}}"
    now_ms = time.time_ns() // 1_000_000
    specs = {f"spec-{i}": case for i, case in enumerate(late_specs(now_ms))}
    async with Redis.from_url(redis86_url) as redis:
        for key, (spec, due, fired) in specs.items():
            await redis.hset(f"{tag}:repeat:spec:{key}", "spec", encode_spec(spec.with_key(key), fired))
            if fired:
                await redis.hset(f"{tag}:repeat:spec:{key}", "fired", str(fired))
            await redis.zadd(f"{tag}:repeat", {key: due})
        jobs_before = await redis.xlen(f"{tag}:stream")
        await asyncio.to_thread(ask, "schedule", redis86_url, queue_name)
        left = dict(await redis.zrange(f"{tag}:repeat", 0, -1, withscores=True))
        counters = {key: await redis.hget(f"{tag}:repeat:spec:{key}", "fired") for key in specs}
        jobs = await redis.xlen(f"{tag}:stream") - jobs_before
        await redis.delete(f"{tag}:repeat", f"{tag}:stream", *(f"{tag}:repeat:spec:{key}" for key in specs))
    plans = {key: plan_fires(spec, due, fired, now_ms) for key, (spec, due, fired) in specs.items()}
    assert {key.decode(): int(score) for key, score in left.items()} == {
        key: plan.next_fire_ms for key, plan in plans.items() if plan.next_fire_ms is not None
    }
    assert {key: int(fired or 0) for key, fired in counters.items() if key.encode() in left} == {
        key: plan.fired for key, plan in plans.items() if plan.next_fire_ms is not None
    }
    assert jobs == sum(len(plan.fires) for plan in plans.values())


async def _answer(what: str, url: str, queue_name: str, question: Any) -> Any:
    from chasquimq import Queue, _native
    from chasquimq import RepeatPattern as TheirPattern

    if what == "schedule":
        scheduler = _native.Scheduler(url, queue_name, tick_interval_ms=20)
        running = asyncio.ensure_future(scheduler.run())
        await asyncio.sleep(0.5)
        scheduler.shutdown()
        return await running

    queue = Queue(queue_name, redis_url=url)

    async def upsert(name: str, expression: str, tz: str | None, start: int | None) -> str | None:
        try:
            repeat = TheirPattern.cron(expression, tz=tz)
            job = await queue.upsert_repeatable_job(name, None, repeat=repeat, start_after_ms=start)
        except RuntimeError:  # refused
            return None
        return str(job.id)

    keys = [
        key for batch in _batches(question) for key in await asyncio.gather(*(upsert(str(i), *c) for i, c in batch))
    ]
    listed = {meta.key: meta.next_fire_ms for meta in await queue.get_repeatable_jobs(limit=len(keys) + 1)}
    for batch in _batches([key for key in keys if key]):
        await asyncio.gather(*(queue.remove_repeatable_by_key(key) for _, key in batch))
    return [key and listed[key] for key in keys]


def _batches(items: list[Any], size: int = 250) -> Iterator[list[tuple[int, Any]]]:
    for start in range(0, len(items), size):
        yield list(enumerate(items[start : start + size], start))


if __name__ == "__main__":
    _, what, url, queue_name = sys.argv
    answer = asyncio.run(_answer(what, url, queue_name, json.load(sys.stdin)))
    print(json.dumps(answer), flush=True)
    os._exit(0)  # past the exit at which the module may abort
