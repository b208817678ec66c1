"""The counts of a queue that last, as its workers write them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine import ConfigError, Queue
from chasqui_engine._redis.client.connector import A_MOMENT_S, Connector
from chasqui_engine._redis.commands import stats
from chasqui_engine._redis.commands.group import Delivery, GroupMember
from chasqui_engine._redis.commands.settle import Ack
from chasqui_engine.runtime.clock import now_ms
from chasqui_engine.tally import Tally, quantile_ms
from tests.support.consumers import consuming
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from redis.asyncio import Redis

    from chasqui_engine import Job

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.fixture
async def queue(redis_url: str, queue_name: str) -> AsyncIterator[Queue]:
    async with Queue(queue_name, redis_url=redis_url) as opened:
        yield opened


def ack(name: str, duration_us: int = 1) -> Ack:
    return Ack(Delivery(b"1-1", b"", name, 1, 0.0), "id", 1, duration_us, None)


async def record(redis_url: str, queue: Queue, fields: dict[str, int], at_ms: int) -> None:
    connector = Connector(redis_url, queue.name, "test", None)
    link = await connector.link(A_MOMENT_S).connect(0)
    await stats.record_tally(link, GroupMember(connector.keys, "default", "me"), fields, at_s=at_ms // 1000)
    await connector.close()


async def test_a_worker_that_stops_has_counted_how_its_jobs_ended(redis_url: str, queue: Queue, raw: Redis) -> None:
    began = now_ms()
    await queue.add_bulk([{"name": "good", "data": n} for n in range(20)])
    await queue.add("bad", 1, attempts=2)
    done = []

    async def handle(job: Job) -> None:
        if job.name == "bad":
            raise ValueError("no")
        done.append(job.payload)

    async with consuming(redis_url, queue.name, handle):
        await until(lambda: len(done) == 20 and _is_dead(queue))
    for grain in ("minute", "hour"):
        points = await queue.read_history(began, grain=grain)  # type: ignore[arg-type]
        assert sum((one.completed for one in points), Counter()) == {"good": 20}
        assert sum((one.failed for one in points), Counter()) == {"bad": 2}
        assert sum((one.dead for one in points), Counter()) == {"bad": 1}
        assert sum((one.durations for one in points), Counter[int]()).total() == 22
        assert points[0].depth is not None
    kept = [await raw.ttl(key) async for key in raw.scan_iter(match=f"{queue.stream_key[:-6]}tally:*", count=10_000)]
    assert len(kept) >= 2
    assert all(0 < ttl <= 29 * 86_400 for ttl in kept)
    await queue.obliterate(force=True)
    assert await queue.read_history(began) == []


async def _is_dead(queue: Queue) -> bool:
    return (await queue.counts()).dead == 1


async def test_counts_add_up_and_the_hour_keeps_its_greatest_depth(redis_url: str, queue: Queue) -> None:
    at_ms = now_ms() // HOUR_MS * HOUR_MS - HOUR_MS
    await queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
    await record(redis_url, queue, {"c:a": 2, "t:10": 2}, at_ms)
    await queue.add("n", 1, delay_ms=HOUR_MS)
    await queue.add("n", 1)
    await record(redis_url, queue, {"c:a": 3, "c:b": 1, "f:a": 1}, at_ms + 60_000)
    await queue.drain(delayed=False)
    await record(redis_url, queue, {"d:a": 1}, at_ms + 120_000)
    minutes = await queue.read_history(at_ms, at_ms + HOUR_MS)
    assert [one.at_ms - at_ms for one in minutes] == [0, 60_000, 120_000]
    assert [one.completed for one in minutes] == [{"a": 2}, {"a": 3, "b": 1}, {}]
    assert [one.depth for one in minutes] == [(3, 0, 0), (4, 0, 1), (0, 0, 1)]
    [hour] = await queue.read_history(at_ms, at_ms + 1, grain="hour")
    assert (hour.at_ms, hour.completed, hour.failed, hour.dead) == (at_ms, {"a": 5, "b": 1}, {"a": 1}, {"a": 1})
    assert hour.depth == (4, 0, 1)
    assert await queue.read_history(at_ms + 180_000, at_ms + HOUR_MS) == []


async def test_any_number_of_names_takes_bounded_room(redis_url: str, queue: Queue, raw: Redis) -> None:
    at_ms = now_ms() // HOUR_MS * HOUR_MS
    await record(redis_url, queue, {f"c:{n}": 1 for n in range(4_500)}, at_ms)
    for _ in range(2):
        await record(redis_url, queue, {f"c:new-{n}": 1 for n in range(500)} | {"t:5": 1}, at_ms)
    [point] = await queue.read_history(at_ms, at_ms)
    assert (point.completed["*"], point.completed.total(), point.durations) == (1_000, 5_500, {5: 2})
    tally = Tally()
    tally.add_completed([ack(f"{'x' * 200}-{n}") for n in range(80)] + [ack("often")] * 5)
    fields = {name: number for name, number in tally.take().items() if name.startswith("c:")}
    assert len(fields) <= 51
    assert fields["c:often"] == 5
    assert sum(fields.values()) == 85
    assert tally.take() == {}


async def test_what_others_wrote_is_passed_over(queue: Queue, raw: Redis) -> None:
    at_ms = now_ms() // HOUR_MS * HOUR_MS
    wrong: Any = {
        "x": "1",
        "0:c": "1",
        "0:c:a": "many",
        "0:t:b": "1",
        "0:depth": "1,2",
        "99:d:a": "1",
        "0:f:b": "2",
        "²:c:a": "1",
    }
    await raw.hset(f"{queue.stream_key[:-6]}tally:minute:{at_ms // HOUR_MS}", mapping=wrong)
    [point] = await queue.read_history(at_ms, at_ms)
    assert (point.failed, point.dead, point.depth) == ({"b": 2}, {}, None)


@pytest.mark.parametrize(
    "wrong", [{"since_ms": -1}, {"since_ms": 0, "until_ms": "now"}, {"since_ms": 0, "grain": "day"}]
)
async def test_wrong_arguments_are_refused(queue: Queue, wrong: Any) -> None:
    with pytest.raises(ConfigError):
        await queue.read_history(**wrong)


@pytest.mark.parametrize("ms", [0.001, 0.05, 1, 17, 1000, 86_400_000])
def test_a_quantile_is_right_to_a_fifth(ms: float) -> None:
    tally = Tally()
    tally.add_completed([ack("n", int(ms * 1000))] * 99 + [ack("n", 1)])
    durations = Counter({int(name[2:]): number for name, number in tally.take().items() if name.startswith("t:")})
    middle = quantile_ms(durations, 0.5)
    assert middle is not None
    assert 0.8 < middle / ms < 1.25
    assert quantile_ms(Counter(), 0.5) is None
