"""A leader that is frozen past its time and wakes up: what was promoted or fired meanwhile is not done again."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from chasqui_engine import Queue, RepeatPattern
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.support.faults.fleet import Fleet, Ledger
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis


async def test_nothing_is_promoted_or_fired_twice(redis_url: str, raw: Redis, queue_name: str, tmp_path: Path) -> None:
    delayed, interval_ms = 300, 250
    ledger = Ledger(tmp_path / "ledger")
    keys = QueueKeys(queue_name)
    with Fleet(redis_url, queue_name, ledger, claim_min_idle_ms=1000, scheduler_tick_ms=50) as fleet:
        frozen = fleet.start()
        await until(lambda: raw.exists(keys.promoter_lock, keys.scheduler_lock))
        async with Queue(queue_name, redis_url=redis_url) as queue:
            jobs = [{"name": "n", "data": n, "delay_ms": 10 * n} for n in range(delayed)]
            await queue.add_bulk(jobs)
            spec = await queue.upsert_repeatable_job("tick", -1, repeat=RepeatPattern.every(interval_ms))
            await until(lambda: ledger.starts()[-1] >= 2)
            frozen.send_signal(signal.SIGSTOP)
            # What it had in hand, or had done and not yet said so, is done again: that is not a leader's doing.
            in_hand = (await raw.xpending(keys.stream, "default"))["pending"]
            fleet.start()
            await until(lambda: len(ledger.ends()) == delayed + 1, timeout_s=20)
            frozen.send_signal(signal.SIGCONT)
            await asyncio.sleep(1.5)
            fired = int(await raw.hget(keys.spec(spec.id), "fired"))
            await queue.remove_repeatable_by_key(spec.id)
        await until(lambda: is_empty(raw, keys))
        # Each entry completes once, however often its job ran.
        added = [fields[b"e"] for _, fields in await raw.xrange(keys.events)].count(b"completed")
        await until(lambda: ledger.ends().total() >= added)
    assert added - delayed - fired in (0, 1), "one may fire before it is removed"
    assert ledger.ends().total() - added <= in_hand


async def is_empty(raw: Redis, keys: QueueKeys) -> bool:
    return await raw.xlen(keys.stream) == 0
