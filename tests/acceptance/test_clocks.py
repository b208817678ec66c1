"""Clocks that are wrong on one machine, and nights on which every clock jumps."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest

from chasqui_engine import Queue, RepeatableSpec, RepeatPattern, Worker
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.runtime import clock
from chasqui_engine.schedule import first_fire_ms, plan_fires
from tests.support.queues import server_ms, working
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from chasqui_engine import Job

HOUR_MS = 3_600_000


class WrongClock:
    """This process's wall clock, as far off as a test says."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.off_by_ms = 0
        real = clock.now_ms
        users = [
            one for name, one in sys.modules.items() if name.startswith("chasqui_engine.") and "now_ms" in vars(one)
        ]
        assert len(users) > 4, "ids, jobs, queue and enqueuer go by it"
        for module in users:
            patch.setattr(module, "now_ms", lambda: real() + self.off_by_ms)


@pytest.fixture
def wrong_clock(monkeypatch: pytest.MonkeyPatch) -> WrongClock:
    return WrongClock(monkeypatch)


class Times:
    """A handler that notes the server's time at each run."""

    def __init__(self, raw: Redis) -> None:
        self._raw = raw
        self.at: dict[str, list[int]] = {}

    async def __call__(self, job: Job) -> None:
        self.at.setdefault(job.name, []).append(await server_ms(self._raw))


@pytest.mark.parametrize("hours", [-30, -3, 3, 30])
async def test_what_is_due_is_for_the_server_to_say(
    redis_url: str, raw: Redis, queue_name: str, wrong_clock: WrongClock, hours: int
) -> None:
    """Delays, points in time and repeats, all by a client whose clock is hours off, and jumps while they wait."""
    wrong_clock.off_by_ms = hours * HOUR_MS
    times = Times(raw)
    worker = Worker(queue_name, times, redis_url=redis_url, read_block_ms=100, scheduler_tick_ms=50)
    async with Queue(queue_name, redis_url=redis_url) as queue, working(worker):
        began = await server_ms(raw)
        await queue.add("delay", 1, delay_ms=400)
        await queue.add("moment", 1, delay_ms=datetime.fromtimestamp((began + 600) / 1000, UTC))
        await queue.add("far", 1, delay_ms=datetime.fromtimestamp((began + 2 * HOUR_MS) / 1000, UTC))
        await queue.upsert_repeatable_job("every", 1, repeat=RepeatPattern.every(300))
        wrong_clock.off_by_ms = -hours * HOUR_MS
        await until(lambda: {"delay", "moment"} <= times.at.keys() and len(times.at.get("every", [])) >= 2)
    assert times.at["delay"][0] >= began + 400
    assert times.at["moment"][0] >= began + 600
    assert times.at["every"][0] >= began + 300
    assert max(times.at["delay"][0], times.at["moment"][0]) < began + 8000
    assert "far" not in times.at
    assert await raw.zcard(QueueKeys(queue_name).delayed) == 1


async def test_a_clock_that_jumps_does_not_cost_a_worker_its_jobs(
    redis_url: str, raw: Redis, queue_name: str, wrong_clock: WrongClock
) -> None:
    """Leases and timeouts go by a clock that never jumps: a job under way is neither lost nor run again."""
    runs: list[int] = []

    async def handler(job: Job) -> None:
        runs.append(job.payload)
        await asyncio.sleep(1.2)

    settings = {"read_block_ms": 100, "claim_min_idle_ms": 500}
    one = Worker(queue_name, handler, redis_url=redis_url, **settings)  # type: ignore[arg-type]
    other = Worker(queue_name, handler, redis_url=redis_url, **settings)  # type: ignore[arg-type]
    async with Queue(queue_name, redis_url=redis_url) as queue, working(one), working(other):
        await queue.add_bulk([{"name": "n", "data": n} for n in range(20)])
        await until(lambda: len(runs) == 20)
        for hours in (24, -24, 1000):
            wrong_clock.off_by_ms = hours * HOUR_MS
            await asyncio.sleep(0.2)
        await until(lambda: _is_empty(raw, queue_name))
    assert sorted(runs) == list(range(20))


async def _is_empty(raw: Redis, queue: str) -> bool:
    return await raw.xlen(QueueKeys(queue).stream) == 0


def fires(expression: str, tz: str, start: str, end: str) -> list[str]:
    """Every fire between two local times, walked through as the scheduler does; in local time with its offset."""
    zone = ZoneInfo(tz)
    begin, stop = (datetime.fromisoformat(text).replace(tzinfo=zone) for text in (start, end))
    spec = RepeatableSpec("n", RepeatPattern.cron(expression, tz=tz), None)
    now_ms, out, fired = int(begin.timestamp() * 1000), [], 0
    next_ms: int | None = first_fire_ms(spec, now_ms)
    while next_ms is not None and next_ms < stop.timestamp() * 1000:
        plan = plan_fires(spec, next_ms, fired, next_ms)
        out += [datetime.fromtimestamp(at / 1000, zone).isoformat() for at in plan.fires]
        next_ms, fired = plan.next_fire_ms, plan.fired
    assert fired == len(out)
    return out


def test_the_night_with_an_hour_less() -> None:
    """Berlin, 2027-03-28: 02:00 is followed by 03:00."""
    night = ("Europe/Berlin", "2027-03-27T12:00", "2027-03-28T12:00")
    assert fires("30 2 * * *", *night) == ["2027-03-28T03:00:00+02:00"]
    assert fires("0 3 * * *", *night) == ["2027-03-28T03:00:00+02:00"]
    hourly = fires("0 * * * *", *night)
    assert len(hourly) == 22  # 23 hours, the first of which has no fire left
    assert "2027-03-28T02:00:00+01:00" not in hourly
    assert hourly[-10:-8] == ["2027-03-28T01:00:00+01:00", "2027-03-28T03:00:00+02:00"]


def test_the_night_with_an_hour_more() -> None:
    """Berlin, 2027-10-31: 03:00 is followed by 02:00."""
    night = ("Europe/Berlin", "2027-10-30T12:00", "2027-10-31T12:00")
    assert fires("30 2 * * *", *night) == ["2027-10-31T02:30:00+02:00"]
    assert fires("0 3 * * *", *night) == ["2027-10-31T03:00:00+01:00"]
    hourly = fires("0 * * * *", *night)
    assert len([at for at in hourly if "T02:" in at]) == 1


def test_leap_day() -> None:
    assert fires("0 12 29 2 *", "UTC", "2027-01-01T00:00", "2033-01-01T00:00") == [
        "2028-02-29T12:00:00+00:00",
        "2032-02-29T12:00:00+00:00",
    ]
    daily = fires("0 0 * 2 *", "Asia/Tokyo", "2028-01-01T00:00", "2028-12-31T00:00")
    assert len(daily) == 29
    assert fires("0 0 29 2 *", "UTC", "2096-03-01T00:00", "2104-03-01T00:00") == ["2104-02-29T00:00:00+00:00"]


def test_every_takes_no_notice_of_local_time() -> None:
    spec = RepeatableSpec("n", RepeatPattern.every(HOUR_MS), None)
    begin = int(datetime(2027, 3, 27, 23, tzinfo=UTC).timestamp() * 1000)
    next_ms, at = first_fire_ms(spec, begin), []
    for _ in range(5):
        plan = plan_fires(spec, next_ms, len(at), next_ms)
        at += plan.fires
        assert plan.next_fire_ms is not None
        next_ms = plan.next_fire_ms
    assert [ms - begin for ms in at] == [n * HOUR_MS for n in range(1, 6)]
    assert timedelta(milliseconds=at[-1] - at[0]) == timedelta(hours=4)
