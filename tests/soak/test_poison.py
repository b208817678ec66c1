"""A million entries that should not be there."""

from __future__ import annotations

import logging
import os
import random
from typing import TYPE_CHECKING

import pytest

from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.hostile import poisoning
from tests.support.measure import rss_mib

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from redis.asyncio import Redis

TOTAL = int(os.environ.get("CHASQUI_SOAK_POISON", "1000000"))
SHARES: dict[str, tuple[Callable[[str, Redis, str, int, int], Awaitable[str]], float]] = {
    "stream": (poisoning.poison_stream, 0.6),
    "delayed": (poisoning.poison_delayed, 0.15),
    "repeat": (poisoning.poison_repeat, 0.05),
    "results": (poisoning.poison_results, 0.1),
    "events": (poisoning.poison_events, 0.1),
}
MOST_GROWTH_MIB = 300
"""The test itself holds what it is about to write."""


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("place", SHARES)
async def test_a_million_mutated_entries(
    redis_url: str, raw: Redis, server_kind: str, queue_name: str, place: str
) -> None:
    poison, share = SHARES[place]
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    # Every record that pytest captures would count as memory of the engine.
    logging.getLogger("chasqui").setLevel(logging.CRITICAL)
    before = rss_mib()
    said = await poison(redis_url, raw, queue_name, int(TOTAL * share), seed)
    await _remove(raw, queue_name)
    growth = rss_mib() - before
    print(f"{server_kind}, {place}: {said}; {growth:+.0f} MiB")
    assert growth < MOST_GROWTH_MIB


async def _remove(raw: Redis, queue: str) -> None:
    """A million dead letters are in the way of those that come after."""
    async for key in raw.scan_iter(match=QueueKeys(queue).prefix + "*", count=5000):
        await raw.unlink(key)
