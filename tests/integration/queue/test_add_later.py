"""Adding jobs for later: the forms of delays and times, and whose clock counts."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import AddOptions, BackoffSpec, ConfigError, EncodeError, JobRetryOverride, Producer, ProducerConfig
from chasqui_engine.values.job import Moment
from tests.support.queues import delayed_jobs, events_of, keys_of, server_ms, waiting_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio import Redis

HOUR_MS = 3_600_000
LAG_MS = 20_000
"""How much later than asked for a busy machine may get a delay written."""
RETRY = JobRetryOverride(2, BackoffSpec.fixed(5))


@pytest.mark.parametrize("delay", [timedelta(hours=1), 3600, 3600.0], ids=["timedelta", "int", "float"])
async def test_a_delay_counts_from_the_servers_now(
    producer: Producer, raw: Redis, queue_name: str, delay: timedelta | float
) -> None:
    before = await server_ms(raw)
    job_id = await producer.add_in(delay, {"a": 1})
    after = await server_ms(raw)
    [(job, run_at)] = await delayed_jobs(raw, queue_name)
    assert (job.id, job.payload, job.name, job.attempt) == (job_id, {"a": 1}, "", 0)
    assert before + HOUR_MS <= run_at <= after + HOUR_MS
    assert await waiting_jobs(raw, queue_name) == []


def at(epoch_s: float, zone: timezone) -> datetime:
    return datetime.fromtimestamp(epoch_s, tz=zone)


TIMES: dict[str, Callable[[float], Any]] = {
    "aware": lambda epoch_s: at(epoch_s, timezone(timedelta(hours=5, minutes=30))),
    "naive is UTC": lambda epoch_s: at(epoch_s, UTC).replace(tzinfo=None),
    "epoch seconds": lambda epoch_s: epoch_s,
}


@pytest.mark.parametrize("form", TIMES)
async def test_a_time_is_kept_to_the_millisecond(producer: Producer, raw: Redis, queue_name: str, form: str) -> None:
    run_at_ms = await server_ms(raw) // 1000 * 1000 + HOUR_MS + 123
    await producer.add_at(TIMES[form](run_at_ms / 1000), "x")
    assert [(job.payload, run_at) for job, run_at in await delayed_jobs(raw, queue_name)] == [("x", run_at_ms)]


async def test_every_door_to_later(producer: Producer, raw: Redis, queue_name: str) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    await producer.add_in_with_options(3600, 1, AddOptions(id="a", name="n", retry=RETRY))
    await producer.add_at_with_options(when, 2, AddOptions(id="b", name="m"))
    await producer.add_in_with_id("c", timedelta(hours=1), 3)
    await producer.add_at_with_id("d", when.timestamp(), 4)
    minted = await producer.add_in_bulk(3600, [5, 6])
    assert await producer.add_in_bulk_with_ids(3600, [("g", 7), ("h", 8)]) == ["g", "h"]
    jobs = {job.id: (job.payload, job.name, job.retry) for job, _ in await delayed_jobs(raw, queue_name)}
    assert jobs == {
        "a": (1, "n", RETRY),
        "b": (2, "m", None),
        "c": (3, "", None),
        "d": (4, "", None),
        minted[0]: (5, "", None),
        minted[1]: (6, "", None),
        "g": (7, "", None),
        "h": (8, "", None),
    }


async def test_a_delayed_job_tells_so(producer: Producer, raw: Redis, queue_name: str) -> None:
    await producer.add_in_with_options(2, 1, AddOptions(id="a", name="n"))
    await producer.add_in_with_options(2, 1, AddOptions(id="a", name="again"))
    assert await events_of(raw, queue_name) == [{"e": "delayed", "id": "a", "n": "n", "delay_ms": "2000"}]


async def test_events_can_be_off(redis_url: str, raw: Redis, queue_name: str) -> None:
    config = ProducerConfig(queue_name=queue_name, events_enabled=False)
    async with await Producer.connect(redis_url, config) as producer:
        await producer.add_in(5, 1)
    assert await keys_of(raw, queue_name) == {f"{{chasqui:{queue_name}}}:delayed"}


PAST: dict[str, Callable[[Producer], Any]] = {
    "no delay": lambda producer: producer.add_in(0, 1),
    "an empty timedelta": lambda producer: producer.add_in(timedelta(), 1),
    "less than a millisecond": lambda producer: producer.add_in(0.0002, 1),
    "an hour ago": lambda producer: producer.add_at(time.time() - 3600, 1),
    "last year": lambda producer: producer.add_at(datetime.now(UTC) - timedelta(days=365), 1),
    "before the epoch": lambda producer: producer.add_at(datetime(1969, 7, 20, tzinfo=UTC), 1),
    "the epoch": lambda producer: producer.add_at(0, 1),
    "a bulk without delay": lambda producer: producer.add_in_bulk(0, [1]),
}


@pytest.mark.parametrize("when", PAST)
async def test_what_is_due_goes_straight_to_the_stream(
    producer: Producer, raw: Redis, queue_name: str, when: str
) -> None:
    await PAST[when](producer)
    assert [job.payload for job in await waiting_jobs(raw, queue_name)] == [1]
    assert await keys_of(raw, queue_name) == {producer.stream_key}


@pytest.mark.parametrize("skew_s", [-7200, 7200], ids=["behind", "ahead"])
async def test_a_wrong_clock_of_the_producer_changes_nothing(
    producer: Producer, raw: Redis, queue_name: str, monkeypatch: pytest.MonkeyPatch, skew_s: int
) -> None:
    now_ms = await server_ms(raw)
    real_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + skew_s * 10**9)
    await producer.add_at((now_ms + HOUR_MS) / 1000, "in an hour")
    await producer.add_at((now_ms - HOUR_MS) / 1000, "an hour ago")
    await producer.add_in(1800, "in half an hour")
    (half, half_at), (hour, hour_at) = await delayed_jobs(raw, queue_name)
    assert [job.payload for job in await waiting_jobs(raw, queue_name)] == ["an hour ago"]
    assert (half.payload, hour.payload, hour_at) == ("in half an hour", "in an hour", now_ms + HOUR_MS)
    assert 0 <= half_at - now_ms - HOUR_MS // 2 < LAG_MS


async def test_a_mixed_bulk_puts_each_job_where_it_belongs(producer: Producer, raw: Redis, queue_name: str) -> None:
    now_ms = await server_ms(raw)
    moments = [None, Moment(True, HOUR_MS), Moment(False, now_ms + 2 * HOUR_MS), Moment(False, now_ms - 1)]
    ids = await producer.add_later([(n, AddOptions(name=f"n{n}")) for n in range(4)], moments)
    assert [(job.id, job.name) for job in await waiting_jobs(raw, queue_name)] == [(ids[0], "n0"), (ids[3], "n3")]
    assert [(job.id, job.name) for job, _ in await delayed_jobs(raw, queue_name)] == [(ids[1], "n1"), (ids[2], "n2")]


async def test_a_mixed_bulk_with_a_bad_payload_writes_nothing(producer: Producer, raw: Redis, queue_name: str) -> None:
    additions: list[tuple[Any, AddOptions]] = [
        (1, AddOptions(id="a")),
        (2, AddOptions(id="b")),
        (object(), AddOptions()),
    ]
    with pytest.raises(EncodeError, match="job 3 of 3"):
        await producer.add_later(additions, [None, Moment(True, 1000), Moment(True, 1000)])
    assert await keys_of(raw, queue_name) == set()


async def test_the_furthest_delay_is_capped(redis_url: str, raw: Redis, queue_name: str) -> None:
    config = ProducerConfig(queue_name=queue_name, max_delay_secs=60)
    async with await Producer.connect(redis_url, config) as producer:
        await producer.add_in(60, "just")
        with pytest.raises(ConfigError, match="max_delay_secs=60"):
            await producer.add_in(60.5, "over")
        with pytest.raises(ConfigError, match="max_delay_secs=60"):
            await producer.add_at(time.time() + 3600, "over")
        with pytest.raises(ConfigError, match="max_delay_secs=60"):
            await producer.add_later([(1, AddOptions()), (2, AddOptions())], [None, Moment(True, 61_000)])
    assert [job.payload for job, _ in await delayed_jobs(raw, queue_name)] == ["just"]
    assert await waiting_jobs(raw, queue_name) == []


async def test_thirty_days_are_the_default_cap_and_zero_is_none(
    producer: Producer, redis_url: str, raw: Redis, queue_name: str
) -> None:
    with pytest.raises(ConfigError, match="max_delay_secs=2592000"):
        await producer.add_in(timedelta(days=30, seconds=1), 1)
    before = await server_ms(raw)
    config = ProducerConfig(queue_name=queue_name, max_delay_secs=0)
    async with await Producer.connect(redis_url, config) as patient:
        await patient.add_in_with_id("far", timedelta(days=365_000), 1)
    [(_, run_at)] = await delayed_jobs(raw, queue_name)
    assert 0 <= run_at - before - 365_000 * 24 * HOUR_MS < LAG_MS
    assert await raw.ttl(f"{{chasqui:{queue_name}}}:dlid:far") > 365_000 * 24 * 3600


NO_TIMES: dict[str, tuple[str, Any]] = {
    "a negative delay": ("delay", lambda producer: producer.add_in(-1, 1)),
    "a negative timedelta": ("delay", lambda producer: producer.add_in(timedelta(seconds=-1), 1)),
    "a delay that is no number": ("delay", lambda producer: producer.add_in("5", 1)),
    "a flag for a delay": ("delay", lambda producer: producer.add_in(True, 1)),
    "nothing for a delay": ("delay", lambda producer: producer.add_in_bulk(None, [1])),
    "not a number": ("delay", lambda producer: producer.add_in(float("nan"), 1)),
    "for ever": ("delay", lambda producer: producer.add_in(float("inf"), 1)),
    "longer than can be held": ("delay", lambda producer: producer.add_in(1e306, 1)),
    "a time that is no time": ("when", lambda producer: producer.add_at("tomorrow", 1)),
    "a time out of range": ("when", lambda producer: producer.add_at(1e30, 1)),
}


@pytest.mark.parametrize("what", NO_TIMES)
async def test_what_is_no_time_is_named(redis_url: str, raw: Redis, queue_name: str, what: str) -> None:
    field, call = NO_TIMES[what]
    config = ProducerConfig(queue_name=queue_name, max_delay_secs=0)
    async with await Producer.connect(redis_url, config) as producer:
        with pytest.raises(ConfigError, match=f"{field} must be"):
            await call(producer)
    assert await keys_of(raw, queue_name) == set()
