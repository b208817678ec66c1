"""Handlers that misbehave: their jobs have a clear fate, workers live or are replaced, others are not starved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chasqui_engine import Queue
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine.codec.envelope import decode_job
from tests.support.faults.fleet import EMPTY, Fleet, Ledger, left_over
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from redis.asyncio import Redis

GOOD, ATTEMPTS = 300, 3
SILENT = "the last worker went silent before it was done"
BAD = {1000: "exit", 1001: "exit", 1002: "mute", 1003: "unsendable", 1004: "die"}
ODD = {2000: "fork", 2001: "fork", **dict.fromkeys(range(2100, 2120), "leak")}
"""Unusual, but they end well."""


@pytest.mark.soak
@pytest.mark.timeout(180)
async def test_every_job_has_its_fate(redis_url: str, raw: Redis, queue_name: str, tmp_path: Path) -> None:
    jobs = dict.fromkeys(range(GOOD), "well") | BAD | ODD
    ledger = Ledger(tmp_path / "ledger")
    settings = {"work_ms": 5, "concurrency": 5, "claim_min_idle_ms": 800, "max_attempts": ATTEMPTS}
    async with Queue(queue_name, redis_url=redis_url) as queue:
        await queue.add_bulk([{"name": fate, "data": [number, fate]} for number, fate in jobs.items()])
    with Fleet(redis_url, queue_name, ledger, **settings, store_results=True) as fleet:

        async def settled() -> bool:
            fleet.at_strength(2)
            left = await left_over(raw, queue_name)
            return left == {**EMPTY, "dead": left["dead"]}

        await until(settled, timeout_s=120, every_s=0.1)
    ends = ledger.ends()
    assert [number for number in (*range(GOOD), *ODD) if not ends[number]] == []
    dead = await _dead(raw, queue_name)
    assert dead.keys() == BAD.keys()
    assert dead[1000] == dead[1001] == ("retries_exhausted", f"no run left after {ATTEMPTS}; {SILENT}")
    assert dead[1002] == ("retries_exhausted", "MuteError: (its __str__ raised RuntimeError)")
    assert dead[1003][0] == dead[1004][0] == "unrecoverable"
    assert dead[1004][1] == "UnrecoverableError: as told, in run 1"
    assert all(ledger.starts()[number] <= ATTEMPTS for number in BAD)


async def _dead(raw: Redis, queue: str) -> dict[int, tuple[str, str]]:
    """Number → reason and detail."""
    entries = await raw.xrange(QueueKeys(queue).dlq)
    return {
        decode_job(fields[b"d"], "").payload[0]: (fields[b"reason"].decode(), fields[b"detail"].decode())
        for _, fields in entries
    }
