"""`kill -9` of workers that are at work, again and again, with an account of what was begun again."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, NamedTuple

from chasqui_engine import Queue
from tests.support.faults.fleet import EMPTY, Fleet, left_over
from tests.support.waiting import until

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from tests.support.faults.fleet import Ledger

CONCURRENCY = 20
PATIENCE_S = 50.0


class Killed(NamedTuple):
    """What came of it."""

    jobs: int
    kills: int
    in_hand: int
    """Begun and not ended, by all the victims when they died."""
    running: int
    """Begun again: jobs that had not ended."""
    ended: int
    """Begun again: jobs that had ended, and the server had not heard of it."""

    def __str__(self) -> str:
        again = f"{self.running} running and {self.ended} ended jobs begun again"
        return f"{self.jobs} jobs, {self.kills} kills, {self.in_hand} jobs in hand: 0 lost, {again}"


async def add_numbered(url: str, queue: str, count: int) -> None:
    """Adds jobs whose data is their number."""
    async with Queue(queue, redis_url=url) as producer:
        for start in range(0, count, 1000):
            await producer.add_bulk([{"name": "n", "data": n} for n in range(start, min(start + 1000, count))])


async def kill_again_and_again(
    url: str, raw: Redis, queue: str, ledger: Ledger, *, jobs: int, kills: int, **settings: Any
) -> Killed:
    """Each victim is killed at any moment once it is well at work; whoever comes last runs what is left."""
    await add_numbered(url, queue, jobs)
    settings = {"concurrency": CONCURRENCY, "spread": 0.5, "claim_min_idle_ms": 800, "max_attempts": 50, **settings}
    in_hand = 0
    with Fleet(url, queue, ledger, **settings) as fleet:
        for _ in range(kills):
            victim = fleet.start()
            await until(lambda pid=victim.pid: len(ledger.begun_by(pid)) >= 2 * CONCURRENCY, timeout_s=PATIENCE_S)
            await asyncio.sleep(random.uniform(0, 0.1))
            fleet.kill(victim)
            in_hand += len(ledger.in_hand_of(victim.pid))
        fleet.start(work_ms=1, concurrency=100)
        await until(lambda: len(ledger.ends()) == jobs, timeout_s=PATIENCE_S)
        await until(lambda: _is_empty(raw, queue), timeout_s=PATIENCE_S)
    again = ledger.again()
    return Killed(jobs, kills, in_hand, again["running"], again["ended"])


async def _is_empty(raw: Redis, queue: str) -> bool:
    return await left_over(raw, queue) == EMPTY
