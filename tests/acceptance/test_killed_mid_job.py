"""`kill -9` of workers that are known to be at work: each victim has begun jobs of its own, and has some in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chasqui_engine import Queue
from tests.acceptance.harness import EMPTY, Fleet, Ledger, left_over
from tests.integration.helpers import until

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis

JOBS, KILLS, CONCURRENCY = 5000, 6, 20


def begun_by(ledger: Ledger, pid: int) -> int:
    """How many jobs a process has begun."""
    return sum(line.startswith("start ") and line.endswith(f" {pid}") for line in ledger.path.read_text().splitlines())


async def test_duplicates_are_bounded_by_what_the_victims_had_in_hand(
    redis_url: str, raw: Redis, queue_name: str, tmp_path: Path
) -> None:
    async with Queue(queue_name, redis_url=redis_url) as producer:
        await producer.add_bulk([{"name": "n", "data": n} for n in range(JOBS)])
    ledger = Ledger(tmp_path / "ledger")
    settings = {"work_ms": 50, "concurrency": CONCURRENCY, "claim_min_idle_ms": 800, "max_attempts": 50}
    victims = []
    with Fleet(redis_url, queue_name, ledger, **settings) as fleet:
        for _ in range(KILLS):
            victim = fleet.start()
            await until(lambda victim=victim: begun_by(ledger, victim.pid) >= 2 * CONCURRENCY, timeout_s=20)
            fleet.kill(victim)
            victims.append(victim.pid)
        fleet.start(work_ms=1, concurrency=100)
        await until(lambda: len(ledger.ends()) == JOBS, timeout_s=40)
        await until(lambda: _is_empty(raw, queue_name))
    starts, pids = ledger.starts(), {str(pid) for pid in victims}
    lines = [line.split() for line in ledger.path.read_text().splitlines()]
    ended = {number for what, number, pid in lines if what == "end" and pid in pids}
    again = [number for number, count in starts.items() if count > 1]
    unconfirmed = [number for number in again if str(number) in ended]
    running = len(again) - len(unconfirmed)
    print(f"{JOBS} jobs, {KILLS} killed at work: 0 lost, {running} were running, {len(unconfirmed)} had just ended")
    assert all(begun_by(ledger, pid) >= 2 * CONCURRENCY for pid in victims)
    # A victim may die with jobs in hand that it had from a victim before it: each start but the last was a victim's,
    # and nobody began the same job twice.
    begun: dict[str, list[str]] = {}
    for what, number, pid in lines:
        if what == "start":
            begun.setdefault(number, []).append(pid)
    assert all(len(set(by)) == len(by) and pids.issuperset(by[:-1]) for by in begun.values())
    assert sum(starts.values()) - JOBS <= 2 * KILLS * CONCURRENCY
    assert 0 < running <= KILLS * CONCURRENCY
    # Their handlers were done, but the kill came before the server heard of it: in flight as well.
    assert len(unconfirmed) <= KILLS * CONCURRENCY


async def _is_empty(raw: Redis, queue: str) -> bool:
    return await left_over(raw, queue) == EMPTY
