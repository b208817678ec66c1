"""Tens of thousands of entries that should not be there, in every place that is read."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING

import msgpack
import pytest

from chasqui_engine import MissedFiresPolicy, RepeatableSpec, RepeatPattern
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.repeatable import encode_spec
from tests.support.consumers import consuming
from tests.support.hostile import poisoning
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.asyncio import Redis

PLACES = {
    "stream": (poisoning.poison_stream, 4000),
    "delayed": (poisoning.poison_delayed, 2000),
    "repeat": (poisoning.poison_repeat, 700),
    "results": (poisoning.poison_results, 2000),
    "events": (poisoning.poison_events, 2000),
}


@pytest.mark.parametrize("place", PLACES)
async def test_mutated_entries_are_accounted_for_and_the_queue_goes_on(
    redis_url: str, raw: Redis, queue_name: str, place: str
) -> None:
    poison: Callable[[str, Redis, str, int, int], Awaitable[str]]
    poison, count = PLACES[place]
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    print(f"{place}: {await poison(redis_url, raw, queue_name, count, seed)}")


async def test_fires_to_make_up_for_that_no_memory_holds(valkey_url: str, queue_name: str) -> None:
    """A spec that says: every millisecond since 1970, and leave none out."""
    from redis.asyncio import Redis

    keys, tally = QueueKeys(queue_name), poisoning.Tally()
    policy = MissedFiresPolicy.fire_all(2**32 - 1)
    greedy = encode_spec(RepeatableSpec("greedy", RepeatPattern.every(1), "x" * 100_000, missed_fires=policy))
    tracemalloc.start()
    try:
        async with (
            Redis.from_url(valkey_url) as raw,
            consuming(valkey_url, queue_name, tally, concurrency=5, run_scheduler=True),
        ):
            for n in range(20):
                await raw.hset(keys.spec(f"greedy-{n}"), "spec", greedy)
            await raw.zadd(keys.repeat, {f"greedy-{n}": n for n in range(20)})
            await until(lambda: tally.runs >= 20, timeout_s=20)
            await raw.delete(keys.repeat)
        assert tracemalloc.get_traced_memory()[1] < 256 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [100, 990, 1015])
async def test_what_is_nested_too_deep_to_be_shown_is_buried(
    redis_url: str, raw: Redis, queue_name: str, size: int
) -> None:
    nested = b"\x91" * size + b"\xc0"
    entries = [
        b"\x95\xa1j\xc4\x01\x01\x01\x00\x92" + nested + b"\xc0",  # attempts
        b"\x95\xa1j\xc4\x01\x01\x01\x00\x92\xc0\x92\xa5fixed" + nested,  # a backoff's delay
        msgpack.packb(["j", b"\x01", 1, 0, [3, ["fixed", "x" * 500_000, None, None, None]]]),
    ]
    stream, tally = QueueKeys(queue_name).stream, poisoning.Tally()
    for entry in entries:
        await raw.xadd(stream, {"d": entry})
    async with consuming(redis_url, queue_name, tally):
        await until(lambda: _buried(raw, queue_name, len(entries)))
    assert await poisoning.dead_by_reason(raw, queue_name) == {b"decode_failed": len(entries)}
    assert tally.runs == 0


async def _buried(raw: Redis, queue: str, count: int) -> bool:
    return await raw.xlen(QueueKeys(queue).dlq) == count
